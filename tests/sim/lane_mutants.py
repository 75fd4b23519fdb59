"""Faults of take-overs, transactions, freshness and leases (mutation.py)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

from tests.sim.mutation import instead, mutant
from tickstream.dispatcher import bucket, engine, takeover
from tickstream.dispatcher.decision import Decision, Task
from tickstream.dispatcher.freshness import Freshness
from tickstream.dispatcher.lane import Lane
from tickstream.dispatcher.leases import LeaseBook
from tickstream.dispatcher.owned import OwnedBucket
from tickstream.dispatcher.ports import Side
from tickstream.dispatcher.records import EncodedOutcome
from tickstream.dispatcher.restore import Restorer
from tickstream.dispatcher.takeover import TakeOver
from tickstream.model import NEVER
from tickstream.testing.sim.lane_ports import SimTransactions
from tickstream.testing.sim.store import MemoryStore
from tickstream.testing.sim.transactions import Broker, Credentials

MS_EARLY: Final = 400

# --------------------------------------------------------------------------- take-over


def _unfenced(side: Side) -> AbstractContextManager[object]:
    """`init` on that side gets the epoch there is, aborts nothing and fences nobody."""
    real = SimTransactions.init

    def init(self: SimTransactions, which: Side) -> None:
        broker: Broker = self._site.broker
        own = broker._ids.get(self._ids[which])
        if which is side and own is not None:
            self._held[which] = Credentials(self._ids[which], own.pid, own.epoch)
        else:
            real(self, which)

    return instead(SimTransactions, "init", init)


@mutant("G2", "init on a fences nobody")
def _a_unfenced() -> AbstractContextManager[object]:
    return _unfenced(Side.A)


@mutant("G2", "init on b fences nobody")
def _b_unfenced() -> AbstractContextManager[object]:
    return _unfenced(Side.B)


@mutant("G2", "b is initialised after the restore, when first used")
def _b_late() -> AbstractContextManager[object]:
    real_init, real_begin = SimTransactions.init, SimTransactions.begin

    def init(self: SimTransactions, side: Side) -> None:
        if side is Side.A:
            real_init(self, side)

    def begin(self: SimTransactions, side: Side) -> None:
        if side not in self._held:
            real_init(self, side)
        real_begin(self, side)

    stack = ExitStack()
    stack.enter_context(instead(SimTransactions, "init", init))
    stack.enter_context(instead(SimTransactions, "begin", begin))
    return stack


def _ends_at(point: str) -> AbstractContextManager[object]:
    """The end of the changelog is what it was when the take-over passed `point`, not the Claim."""
    real_steps, real_claim = TakeOver.steps, TakeOver._claim
    ends: dict[int, dict[int, int]] = {}

    def steps(self: TakeOver) -> Generator[str, None, dict[int, OwnedBucket]]:
        inner = real_steps(self)
        try:
            while True:
                passed = next(inner)
                if passed == point:
                    site = self.ports.inputs._site  # type: ignore[attr-defined]
                    partitions = site.broker.partitions
                    ends[id(self)] = {
                        b: partitions[self.names.timers, b].stable - 1 for b in self.lane_buckets
                    }
                yield passed
        except StopIteration as done:
            value: dict[int, OwnedBucket] = done.value
            return value

    def claim(self: TakeOver) -> Generator[str, None, dict[int, int]]:
        yield from real_claim(self)
        return ends.pop(id(self))

    stack = ExitStack()
    stack.enter_context(instead(TakeOver, "steps", steps))
    stack.enter_context(instead(TakeOver, "_claim", claim))
    return stack


@mutant("G4", "restored to the end as it was before the inits")
def _end_before() -> AbstractContextManager[object]:
    return _ends_at("takeover.connected")


@mutant("G4", "restored to the end as it was between the inits")
def _end_between() -> AbstractContextManager[object]:
    return _ends_at("takeover.a_initialised")


@mutant("G4", "a restore ends at the first record that it reads")
def _no_restore() -> AbstractContextManager[object]:
    real = Restorer.open

    def opened(self: Restorer, targets: Any, facts: Any) -> None:
        real(self, targets, facts)
        for reading in self.readings.values():
            if reading.read_to != NEVER:
                reading.target = 0

    return instead(Restorer, "open", opened)


def _inputs_from(place: str) -> AbstractContextManager[object]:
    real = TakeOver._progress

    def progress(self: TakeOver, reading: Any, facts: Any) -> Any:
        found = real(self, reading, facts)
        site = self.ports.inputs._site  # type: ignore[attr-defined]
        partition = site.broker.partitions[self.names.commands, reading.bucket]
        offset = partition.start if place == "start" else partition.end
        return found._replace(commands=found.commands._replace(offset=offset, item=0))

    return instead(TakeOver, "_progress", progress)


@mutant("G2", "commands are read from the earliest offset after a take-over")
def _earliest() -> AbstractContextManager[object]:
    return _inputs_from("start")


@mutant("G1", "commands are read from the latest offset after a take-over")
def _latest() -> AbstractContextManager[object]:
    return _inputs_from("end")


@mutant("G5", "no leases after a take-over")
def _no_leases() -> AbstractContextManager[object]:
    return instead(takeover, "leases_of", lambda task_id, task: ())


# --------------------------------------------------------------------------- one transaction


@mutant("G1", "the store is written before the commit")
def _store_first() -> AbstractContextManager[object]:
    real = Lane._decided

    def decided(self: Lane, batch: Any) -> Any:
        outcomes, encoded = real(self, batch)
        at = {o.bucket: self.owned[o.bucket].next_offset - 1 for o in outcomes}
        self._apply(outcomes, encoded, at)
        return outcomes, encoded

    return instead(Lane, "_decided", decided)


def _without(keep: Callable[[Any, str], bool]) -> AbstractContextManager[object]:
    """Leave records out of every transaction."""
    real = Lane._commit

    def commit(self: Lane, encoded: list[EncodedOutcome]) -> Any:
        left = [e._replace(records=[r for r in e.records if keep(r, self.names.timers)]) for e in encoded]
        return real(self, left)

    return instead(Lane, "_commit", commit)


@mutant("G1", "Progress does not say how far commands are applied")
def _no_progress() -> AbstractContextManager[object]:
    real = bucket.BucketTurn.outcome

    def outcome(self: Any) -> Any:
        found = real(self)
        start = found.progress.commands._replace(offset=0, item=0)
        return found._replace(progress=found.progress._replace(commands=start))

    return instead(bucket.BucketTurn, "outcome", outcome)


@mutant("G4", "work is left out of a transaction when it is large")
def _no_work() -> AbstractContextManager[object]:
    def keep(record: Any, _timers: str) -> bool:
        return ".work." not in record.topic or record.partition != 1

    return _without(keep)


@mutant("G7", "history is left out now and then")
def _no_history() -> AbstractContextManager[object]:
    return _without(
        lambda record, _timers: not (record.topic.endswith("history") and (record.key or b"").endswith(b"3"))
    )


@mutant("G3", "what is due soon is dispatched now")
def _too_soon() -> AbstractContextManager[object]:
    real_due, real_apply = MemoryStore.due, engine.apply_due

    def due(self: MemoryStore, number: int, until_ms: int, limit: int, *, since_ms: int = 0) -> Any:
        return real_due(self, number, until_ms + MS_EARLY, limit, since_ms=since_ms)

    def apply_due(task: Task, entry: Any, now_ms: int, applied: int, rules: Any) -> Decision:
        decision = real_apply(task, entry, now_ms + MS_EARLY, applied, rules)
        if decision.dispatch is None:
            return decision
        run = decision.dispatch.run._replace(decided_ms=now_ms)
        return decision._replace(dispatch=decision.dispatch._replace(run=run))

    stack = ExitStack()
    stack.enter_context(instead(MemoryStore, "due", due))
    stack.enter_context(instead(bucket, "apply_due", apply_due))
    return stack


# --------------------------------------------------------------------------- freshness and leases


@mutant("G7", "T is the time of day")
def _t_is_now() -> AbstractContextManager[object]:
    return instead(Freshness, "applied_before_ms", lambda self, number: self._clock.wall_ms())


@mutant("G7", "an idle lane writes no Progress")
def _silent() -> AbstractContextManager[object]:
    real = Freshness.drive

    def drive(self: Freshness, *arguments: Any) -> bool:
        real(self, *arguments)
        return False

    return instead(Freshness, "drive", drive)


@mutant("G5", "a lease expires without a probe")
def _no_probe() -> AbstractContextManager[object]:
    real = Lane._take

    def take(self: Lane) -> Any:
        now = self.clock.monotonic()
        self._freshness.licensed = dict.fromkeys(self.owned, now)
        return real(self)

    return instead(Lane, "_take", take)


@mutant("G5", "heartbeats renew nothing")
def _no_renewal() -> AbstractContextManager[object]:
    return instead(LeaseBook, "renew", lambda self, number, report, now: None)
