"""Backfill: occurrences of a recurring task that lie in the past, run as tasks of their own.

What an occurrence comes to is decided on values; only `look` and `send` ask and send. No clock may enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final, NamedTuple, Self

from tickstream.clock import iso_utc
from tickstream.codec import decode_body, decode_command
from tickstream.errors import InvalidInput, InvalidTaskId, TickstreamError, UnknownTask
from tickstream.ingest.bulk import ItemResult
from tickstream.ingest.changelog import Changelog, Standing
from tickstream.ingest.request import Item, instant_ms
from tickstream.model import (
    AGAIN_LABEL,
    BACKFILL_LABEL,
    NEVER,
    OWNER_LABEL,
    VERSION_HEADER,
    BoundCall,
    Command,
    History,
    Outcome,
    Overlap,
    Recurrence,
    TaskState,
    Verdict,
    bucket_key,
    check_task_id,
)

MOST_BACKFILLED: Final = 100
"""Occurrences of one backfill, unless more are asked for."""
MOST_AT_ONCE: Final = 10_000
"""And as many as can be asked for: they are all in memory, and wait at one gate."""


class Fate(StrEnum):
    """What a backfill makes of an occurrence."""

    RUN = "to be run"
    RAN = "ran"
    """Its success stands in history: as the task's own, or of an earlier backfill."""
    IN_FLIGHT = "in flight"
    """It has not ended: the task's own, or an earlier backfill's, which may still wait."""
    TO_COME = "to come"
    """It fell due, and the task has not come to it yet: it is paused, or held, or nobody dispatches."""


class Backfilled(NamedTuple):
    """One occurrence of the window."""

    occurrence_ts: int
    local: str
    """What the clock of the task's zone shows, with the UTC offset."""
    utc: str
    fate: Fate
    item: Item | None = None
    """Of RUN: the task that runs it."""
    answer: Verdict | TickstreamError | None = None
    """Of what was sent."""


class Window(NamedTuple):
    """[start_ms, end_ms), in the past; at most `most` occurrences."""

    start_ms: int
    end_ms: int
    most: int

    @classmethod
    def of(cls, start: datetime, end: datetime, now_ms: int, most: int) -> Self:
        """Raises InvalidInput."""
        start_ms, end_ms = instant_ms("start", start, None), instant_ms("end", end, None)
        if start_ms >= end_ms:
            raise InvalidInput(
                f"the window is empty: it begins at {iso_utc(start_ms)} and ends at {iso_utc(end_ms)}"
            )
        if end_ms > now_ms:
            raise InvalidInput(
                f"the window ends at {iso_utc(end_ms)}, in the future: what is to come the task runs itself; end it by now"
            )
        if type(most) is not int or not 1 <= most <= MOST_AT_ONCE:
            raise InvalidInput(f"most={most!r}: a number from 1 to {MOST_AT_ONCE}")
        return cls(start_ms, end_ms, most)


class Known(NamedTuple):
    """What is known of a task and of its earlier backfills."""

    state: TaskState
    ran: frozenset[int]
    """Occurrences that succeeded, whoever ran them."""
    backfills: Mapping[int, int]
    """Occurrence → the highest number among its backfills."""
    in_flight: frozenset[int]
    """Occurrences with a backfill that has not ended."""


# --------------------------------------------------------------------------- names


class Names:
    """The ids of the tasks that run one task's occurrences: `{nightly}@2027-03-01T02:00:00Z`, then with `/2`.

    They share the task's bucket, and so can be told to wait for each other. An id that has a {tag} keeps it,
    and has a `#` in place of the `@`: else the tasks `a` and `{a}` would have the same ones.
    """

    def __init__(self, task_id: str) -> None:
        """Raises InvalidInput for the few ids that cannot be named so."""
        key = bucket_key(task_id)
        self._base = f"{{{task_id}}}@" if key == task_id else f"{task_id}#"
        if bucket_key(self._base) != key:
            raise InvalidInput(
                f"{task_id!r} has braces that are no {{tag}}: a task with such an id cannot be backfilled"
            )

    def of(self, occurrence_ts: int, number: int) -> str:
        """Raises InvalidInput when the task's own id is too long for it."""
        name = self._base + _utc(occurrence_ts) + ("" if number == 1 else f"/{number}")
        try:
            return check_task_id(name)
        except InvalidTaskId as error:
            raise InvalidInput(
                f"the id of a backfill, {name!r}, would be too long; a shorter task_id is needed"
            ) from error

    def read(self, task_id: str) -> tuple[int, int] | None:
        """(occurrence, number) of an id that was made here; None: it was not."""
        if not task_id.startswith(self._base):
            return None
        instant, _, number = task_id[len(self._base) :].partition("/")
        try:
            moment = datetime.fromisoformat(instant)
            return instant_ms("instant", moment, None), int(number or "1")
        except (ValueError, InvalidInput):
            return None  # an id of somebody's own that begins alike


class _Backfills:
    """Of `Wanted`: a task, and its backfills."""

    def __init__(self, task_id: str, names: Names) -> None:
        self._task_id = task_id
        self._names = names

    def spec(self, task_id: str, value: bytes) -> bool:
        """The task's own alone."""
        del value
        return task_id == self._task_id

    def state(self, task_id: str) -> bool:
        """The task's, and those of its backfills."""
        return task_id == self._task_id or self._names.read(task_id) is not None


# --------------------------------------------------------------------------- decisions


def known_of(
    state: TaskState, others: Mapping[str, Standing], past: Iterable[History], names: Names
) -> Known:
    """What the changelog and history say of a task and of its backfills (`others`, by id)."""
    backfills: dict[int, int] = {}
    in_flight, ran = set(), set()

    def number(task_id: str) -> int | None:
        """The occurrence of a backfill, whose number is noted."""
        read = names.read(task_id)
        if read is None:
            return None
        backfills[read[0]] = max(read[1], backfills.get(read[0], 0))
        return read[0]

    for task_id, stands in others.items():
        occurrence = number(task_id)
        if occurrence is not None and stands.state is not None and stands.state.outcome is None:
            in_flight.add(occurrence)
    for entry in past:
        occurrence = number(entry.task_id)
        if entry.outcome is Outcome.SUCCEEDED:
            ran.add(entry.occurrence_ts if occurrence is None else occurrence)
    return Known(state, frozenset(ran), backfills, frozenset(in_flight))


def occurrences_in(
    recurrence: Recurrence, last: int | None, window: Window
) -> tuple[tuple[int, str, str], ...]:
    """(instant in ms, local, UTC) of each occurrence in the window. Raises InvalidInput when there are too many."""
    from tickstream.recurrence import preview
    from tickstream.recurrence.stored import occurrences_of, schedule_of

    following = occurrences_of(recurrence, last).after(window.start_ms - 1)
    instants = [
        pointer.next_occurrence_ts
        for pointer in islice(
            takewhile(lambda pointer: pointer.next_occurrence_ts < window.end_ms, following), window.most + 1
        )
    ]
    if len(instants) > window.most:
        raise InvalidInput(
            f"more than {window.most} occurrences lie in the window, the last of those at {iso_utc(instants[-2])}: "
            f"take a shorter one, or allow more (at most {MOST_AT_ONCE})"
        )
    # What a gap takes out has no instant, and is no occurrence.
    lines = preview(schedule_of(recurrence, last), len(instants), window.start_ms - 1)
    shown = [(line.local, line.utc) for line in lines if line.utc is not None and line.local is not None]
    return tuple((instant, local, utc) for instant, (local, utc) in zip(instants, shown, strict=True))


def decide(
    task_id: str, command: Command, known: Known, occurrence: tuple[int, str, str], again: bool, names: Names
) -> Backfilled:
    """What a backfill makes of one occurrence. Raises InvalidInput."""
    instant, local, utc = occurrence
    state = known.state
    own = {run.occurrence_ts for run in state.runs} | set(state.extras.queued)
    fate = Fate.RUN
    if state.next_occurrence_ts != NEVER and instant >= state.next_occurrence_ts:
        fate = Fate.TO_COME
    elif instant in own or instant in known.in_flight:
        fate = Fate.IN_FLIGHT
    elif instant in known.ran and not again:
        fate = Fate.RAN
    if fate is not Fate.RUN:
        return Backfilled(instant, local, utc, fate)
    name = names.of(instant, known.backfills.get(instant, 0) + 1)
    return Backfilled(instant, local, utc, fate, _item(task_id, command, instant, name, again))


def _item(task_id: str, command: Command, instant: int, name: str, again: bool) -> Item:
    """The task that runs the occurrence: once, at its instant, on the terms of the recurring one."""
    body, options = decode_body(command.body), command.options
    # Not the owner's: what is declared is the recurring task.
    labels = {key: text for key, text in body.labels.items() if key != OWNER_LABEL}
    allow = options.recurrence is not None and options.recurrence.overlap is Overlap.ALLOW
    version = int(body.headers.get(VERSION_HEADER, "1"))
    return Item(
        name,
        run_at_ts=instant,
        call=BoundCall(body.handler, command.queue, body.payload, options.terms, version),
        labels=labels | {AGAIN_LABEL if again else BACKFILL_LABEL: task_id},
        # Another backfill that came first has it.
        if_exists="reject",
        allow_past=True,
        limit_key=options.limit_key or ("" if allow else f"backfill:{task_id}"),
    )


# --------------------------------------------------------------------------- asking and sending


def look(
    changelog: Changelog, task_id: str, bucket: int, window: Window, again: bool
) -> tuple[Backfilled, ...]:
    """What a backfill of the window comes to; nothing is sent.

    Raises InvalidInput, UnknownTask, BrokerUnavailable, LayoutMismatch, NotApplied.
    """
    names = Names(task_id)
    standing = changelog.tasks(_Backfills(task_id, names), [bucket])
    spec, state = standing.pop(task_id, Standing())
    if spec is None or state is None:
        raise UnknownTask(task_id)
    command = decode_command(spec.command)
    recurrence = command.options.recurrence
    if recurrence is None:
        raise InvalidInput(f"task {task_id!r} runs once: only what recurs has occurrences to be made up for")
    occurrences = occurrences_in(recurrence, state.extras.last_local, window)
    past = changelog.history(
        bucket, window.start_ms, lambda name: name == task_id or names.read(name) is not None
    )
    known = known_of(state, standing, past, names)
    return tuple(decide(task_id, command, known, one, again, names) for one in occurrences)


def send(
    found: tuple[Backfilled, ...], schedule: Callable[[Iterable[Item]], Iterator[ItemResult]]
) -> tuple[Backfilled, ...]:
    """The same with the answer to each that was sent, the earliest first.

    Raises what `schedule` raises: SendFailed, BrokerUnavailable, LayoutMismatch.
    """
    results = schedule(one.item for one in found if one.item is not None)
    answered = []
    for one in found:
        if one.item is not None:
            result = next(results)
            one = one._replace(answer=result.verdict if result.error is None else result.error)
        answered.append(one)
    return tuple(answered)


def _utc(ms: int) -> str:
    return iso_utc(ms).replace(".000Z", "Z")
