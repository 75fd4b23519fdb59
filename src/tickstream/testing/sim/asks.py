"""What the clients of one history ask, and when: drawn from a seed, values only.

A history has some traits and not others, so that each kind of trouble meets now few, now many of the rest.
What goes wrong meanwhile is plan.py's.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tickstream.codec import encode_body
from tickstream.model import (
    EVERY_QUEUE,
    NEVER,
    Body,
    Command,
    IfExists,
    Misfire,
    Options,
    Overlap,
    QueueLimits,
    Recurrence,
    RecurrenceKind,
    RunTerms,
    Verb,
)
from tickstream.testing.clock import START_MS
from tickstream.testing.sim.worker import HANDLER, QUEUE
from tickstream.testing.sim.world import MS

BODY: Final = encode_body(Body(HANDLER, b"", {}, {}))
_LAST_WORD_US: Final = 2_700 * MS
_ZONES: Final = ("", "Europe/Berlin", "Asia/Kolkata")


class Ask(NamedTuple):
    """Commands that a client sends at one instant; one that speaks of a queue goes to every bucket."""

    at_us: int
    client: int
    commands: tuple[Command, ...]
    waits: bool


class Traits(NamedTuple):
    """What a history is made of, besides tasks that run once and are replaced and cancelled."""

    recurring: bool
    moves: bool
    """Pause, resume, trigger, reschedule."""
    gates: bool
    """Pauses and limits of the queue."""
    keys: bool
    """Tasks that share a limit_key."""
    leads: bool
    imports: bool
    """Many commands in one message."""


def draw_traits(rng: random.Random) -> Traits:
    """Those of one history."""
    return Traits(*(rng.random() < share for share in (0.4, 0.6, 0.35, 0.35, 0.35, 0.5)))


def draw_asks(rng: random.Random, traits: Traits, heal_us: int) -> tuple[Ask, ...]:
    """Everything that clients say, in order."""
    asking = _Asking(rng, traits)
    for name in range(rng.randrange(4, 10)):
        asking.task(f"t{name}", heal_us)
    if traits.imports:
        at = rng.randrange(heal_us // 2)
        many = tuple(asking.command(f"i{n}", at, []) for n in range(rng.randrange(2, 8)))
        asking.asks.append(Ask(at, 0, many, rng.random() < 0.5))
    if traits.gates:
        asking.queue(heal_us)
    return tuple(sorted(asking.asks, key=lambda a: a.at_us))


class _Asking:
    """Collects the asks of one history."""

    def __init__(self, rng: random.Random, traits: Traits) -> None:
        self.asks: list[Ask] = []
        self._rng = rng
        self._traits = traits
        self._number = 0

    def task(self, task: str, heal_us: int) -> None:
        """Everything that is said of one task."""
        rng = self._rng
        at, client = rng.randrange(heal_us * 3 // 4), rng.randrange(2)
        recurs = self._traits.recurring and rng.random() < 0.4
        said: list[Command] = []
        for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
            command = self.command(task, at, said, recurs=recurs)
            said.append(command)
            self.asks.append(Ask(at, client, (command,), rng.random() < 0.6))
            at += rng.choice((0, 5, 100, 400, 1_500)) * MS
        if any(command.verb is Verb.PAUSE for command in said):
            # What stays paused has no end to come to.
            self.asks.append(Ask(max(at, heal_us), client, (self._about(Verb.RESUME, task),), True))

    def queue(self, heal_us: int) -> None:
        """What is set for the queue, now and then; in the end nothing is paused."""
        rng, client = self._rng, self._rng.randrange(2)
        at = rng.randrange(heal_us * 3 // 4)
        for _ in range(rng.randrange(1, 4)):
            verb = rng.choice((Verb.PAUSE_QUEUE, Verb.RESUME_QUEUE, Verb.LIMIT_QUEUE))
            queue = EVERY_QUEUE if verb is Verb.PAUSE_QUEUE and rng.random() < 0.3 else QUEUE
            limits = rng.choice(
                (QueueLimits(1), QueueLimits(2), QueueLimits(-1, 2, 500), QueueLimits(1, 3, 700))
            )
            options = Options(limits=limits if verb is Verb.LIMIT_QUEUE else None)
            asked = Command(self._id(), verb, "", NEVER, queue, options, b"")
            self.asks.append(Ask(at, client, (asked,), rng.random() < 0.8))
            at += rng.choice((100, 600, 1_500, 2_500)) * MS
        for queue in (QUEUE, EVERY_QUEUE):
            # After every pause, be it one that was lost and is sent again once all is well.
            resume = Command(self._id(), Verb.RESUME_QUEUE, "", NEVER, queue, Options(), b"")
            self.asks.append(Ask(max(at, heal_us) + _LAST_WORD_US, client, (resume,), True))

    def command(self, task: str, at_us: int, said: list[Command], *, recurs: bool = False) -> Command:
        """One more about a task of which `said` was said."""
        rng, traits = self._rng, self._traits
        luck = rng.random()
        if said and luck < 0.2:
            return rng.choice(said)  # the very same again
        if said and luck < 0.38:
            return self._about(Verb.CANCEL, task)._replace(options=Options(running=rng.random() < 0.3))
        if said and traits.moves and luck < 0.55:
            verb = rng.choice((Verb.PAUSE, Verb.RESUME, Verb.TRIGGER, Verb.RESCHEDULE))
            when = START_MS + at_us // MS + rng.choice((0, 300, 1_500))
            return self._about(verb, task)._replace(when=when if verb is Verb.RESCHEDULE else NEVER)
        terms = RunTerms(
            rng.choice((700, 1_500, 3_000)), rng.choice((2_500, 6_000)), rng.choice((1, 2, 3)), 200, 1_000
        )
        options = Options(
            IfExists.REJECT if rng.random() < 0.1 else IfExists.REPLACE,
            terms=terms,
            limit_key="scarce" if traits.keys and rng.random() < 0.5 else "",
            lead_ms=rng.choice((0, 250, 2_000)) if traits.leads and not recurs else 0,
            recurrence=self._recurrence(at_us, said) if recurs else None,
        )
        when = NEVER if recurs else self._when(at_us, said)
        return Command(self._id(), Verb.SCHEDULE, task, when, QUEUE, options, BODY)

    def _when(self, at_us: int, said: list[Command]) -> int:
        rng, now = self._rng, START_MS + at_us // MS
        before = [command.when for command in said if command.when != NEVER]
        if before and rng.random() < 0.25:
            return before[-1]
        return now + rng.choice((-500, 0, 3, 50, 300, 1_000, 2_500, 4_000))

    def _recurrence(self, at_us: int, said: list[Command]) -> Recurrence:
        """A rule that ends after a few seconds: what recurs for ever has no end to come to."""
        rng = self._rng
        before = [c.options.recurrence for c in said if c.options.recurrence is not None]
        if before and rng.random() < 0.4:
            return before[-1]  # as at every deployment
        start_ms = START_MS + at_us // MS + rng.choice((-1_500, -10, 0, 200, 900))
        count = rng.choice((2, 3, 5))
        policies = Recurrence(
            RecurrenceKind.EVERY,
            misfire=rng.choice(tuple(Misfire)),
            grace_ms=rng.choice((100, 800, 60_000)),
            overlap=rng.choice(tuple(Overlap)),
            jitter_ms=rng.choice((0, 0, 400)),
        )
        kind = rng.choice(tuple(RecurrenceKind))
        if kind is RecurrenceKind.EVERY:
            interval_ms = rng.choice((1_000, 1_300))
            return policies._replace(
                start_ms=start_ms, end_ms=start_ms + count * interval_ms, interval_ms=interval_ms
            )
        zone, step = rng.choice(_ZONES), rng.choice((1, 2))
        if kind is RecurrenceKind.CRON:
            end_ms = start_ms + count * step * 1_000
            rule = f"*/{step} * * * * *"
            return policies._replace(kind=kind, rule=rule, zone=zone, start_ms=start_ms, end_ms=end_ms)
        start = datetime.fromtimestamp(start_ms // 1_000 + 1, ZoneInfo(zone or "UTC"))
        rule = f"FREQ=SECONDLY;INTERVAL={step};COUNT={count}"
        local = start.replace(tzinfo=None).isoformat()
        exdate = (start.replace(tzinfo=None) + timedelta(seconds=step)).isoformat()
        dropped = (exdate,) if rng.random() < 0.3 else ()
        return policies._replace(kind=kind, rule=rule, zone=zone, start=local, exdate=dropped)

    def _about(self, verb: Verb, task: str) -> Command:
        """A command about a task that stands."""
        return Command(self._id(), verb, task, NEVER, QUEUE, Options(), b"")

    def _id(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(16, "big")
