"""Tasks as they stand, read from the changelog: everything accepted before the question is in the answer.

For questions that a dashboard's view, some hundred ms old, is too old for. Nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, Protocol

from tickstream.codec import (
    PROGRESS,
    SPEC,
    STATE,
    decode_history,
    decode_progress,
    decode_spec,
    decode_state,
    split_timers_key,
)
from tickstream.errors import BrokerUnavailable, NotApplied
from tickstream.kafka import QUIET_S, Admin, place, read_until
from tickstream.model import History, TaskSpec, TaskState
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_SKEW_MS: Final = 3_600_000
"""History is sought by the time at which it was written, on its writer's clock; that may be off by so much."""


class Standing(NamedTuple):
    """A task as the changelog has it: with a spec it stands, with a state alone it has ended, or runs its last."""

    spec: TaskSpec | None = None
    state: TaskState | None = None


class Wanted(Protocol):
    """Which tasks a question is about; asked for every record, so only those are kept in memory."""

    def spec(self, task_id: str, value: bytes) -> bool:
        """By the encoded TaskSpec."""
        ...

    def state(self, task_id: str) -> bool:
        """By the id alone."""
        ...


class Changelog(Protocol):
    """Where tasks stand, and what became of their occurrences."""

    def tasks(self, wanted: Wanted, buckets: Collection[int]) -> dict[str, Standing]:
        """The wanted tasks of these buckets, with every command in it that was accepted before the call.

        Raises BrokerUnavailable, LayoutMismatch, and NotApplied when no dispatcher gets that far.
        """
        ...

    def history(self, bucket: int, since_ms: int, wanted: Callable[[str], bool]) -> Iterator[History]:
        """What `history` holds of the wanted tasks of a bucket, written since `since_ms` or before.

        Raises BrokerUnavailable, LayoutMismatch.
        """
        ...


class KafkaChangelog:
    """`timers` and `history` on a real cluster."""

    def __init__(self, settings: Settings, client_id: str, admin: Admin, *, quiet_s: float = QUIET_S) -> None:
        """`quiet_s`: nothing comes for so long, and a question is given up."""
        self._quiet_s = quiet_s
        self._settings = settings
        self._client_id = client_id
        self._admin = admin
        self._names = TopicNames(settings.prefix)

    def tasks(self, wanted: Wanted, buckets: Collection[int]) -> dict[str, Standing]:
        """Of Changelog."""
        topic = self._names.timers
        accepted = self._admin.ends([(self._names.commands, bucket) for bucket in buckets])
        partitions = [(topic, bucket) for bucket in buckets]
        starts, ends = self._admin.starts(partitions), self._admin.ends(partitions, stable=True)
        # Of a bucket that was never sent a command nothing has to be applied.
        applied = dict.fromkeys(buckets, 0)
        behind = {bucket: accepted[self._names.commands, bucket] for bucket in buckets}

        def done(_topic: str, bucket: int, position: int) -> bool:
            return position >= ends[topic, bucket] and applied[bucket] >= behind[bucket]

        fold = Fold(wanted)
        try:
            for message in read_until(self._settings, self._client_id, starts, done, self._quiet_s):
                _, bucket, _ = place(message)
                kind, task_id = split_timers_key(message.key())
                value = message.value()
                if kind == PROGRESS and value is not None:
                    applied[bucket] = decode_progress(value).commands.offset
                elif kind in (SPEC, STATE):
                    fold.add(kind, task_id, value)
        except BrokerUnavailable as error:
            late = [bucket for bucket in buckets if applied[bucket] < behind[bucket]]
            if late:
                raise NotApplied(late) from error
            raise
        return fold.found()

    def history(self, bucket: int, since_ms: int, wanted: Callable[[str], bool]) -> Iterator[History]:
        """Of Changelog."""
        here = (self._names.history, bucket)
        ends = self._admin.ends([here], stable=True)
        first = self._admin.offsets_at([here], max(0, since_ms - _SKEW_MS)).get(here, ends[here])
        for message in read_until(
            self._settings, self._client_id, {here: first}, lambda _t, _p, position: position >= ends[here]
        ):
            key, value = message.key(), message.value()
            if key is not None and value is not None and wanted(key.decode()):
                yield decode_history(value)


class Fold:
    """The wanted tasks among records of `timers`, the latest of each key. Pure."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._specs: dict[str, bytes] = {}
        self._states: dict[str, bytes] = {}

    def add(self, kind: bytes, task_id: str, value: bytes | None) -> None:
        """The next record of a spec or a state; None: a tombstone."""
        if kind == SPEC:
            # One that is wanted no longer, since it was defined anew, goes like one that is gone.
            keep = value is not None and self._wanted.spec(task_id, value)
            kept = self._specs
        else:
            keep, kept = value is not None and self._wanted.state(task_id), self._states
        if keep and value is not None:
            kept[task_id] = value
        else:
            kept.pop(task_id, None)

    def found(self) -> dict[str, Standing]:
        """By id. Raises CodecError for what a newer release wrote."""
        return {
            task_id: Standing(
                decode_spec(self._specs[task_id]) if task_id in self._specs else None,
                decode_state(self._states[task_id]) if task_id in self._states else None,
            )
            for task_id in self._specs.keys() | self._states.keys()
        }
