"""A dispatcher's output as a reader of the topics sees it, made by hand: records of `timers` and `history`.

It keeps to the dispatcher's habits (one Progress at the end of each transaction, History numbers
without gaps, the spec gone when a task ends), not to its code.
"""

from __future__ import annotations

from tickstream import codec
from tickstream.calendar.stored import Booking, encode_booking
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    Extras,
    History,
    InputPosition,
    Outcome,
    Progress,
    Recurrence,
    RecurrenceKind,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
)
from tickstream.recurrence.stored import admitted, occurrences_of

TOPIC_ID = b"i" * 16
RULES = (
    Recurrence(RecurrenceKind.EVERY, interval_ms=7_000),
    Recurrence(RecurrenceKind.CRON, "*/20 * * * *", "Europe/Berlin"),
    Recurrence(RecurrenceKind.RRULE, "FREQ=MINUTELY;INTERVAL=11;COUNT=5", start="2026-11-30T12:00:00"),
    Recurrence(RecurrenceKind.EVERY, interval_ms=3_600_000, zone="Asia/Tokyo"),
)


class LogWriter:
    """One bucket's logs, growing. `timers` and `history` hold what is committed, by offset."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.timers: list[tuple[bytes, bytes | None]] = []
        self.history: list[bytes] = []
        self.open_timers: list[tuple[bytes, bytes | None]] = []
        self.open_history: list[bytes] = []
        self.states: dict[str, TaskState] = {}
        self.specs: dict[str, TaskSpec] = {}
        self.commands = 0
        self._now = 0
        self._number = 0
        self.tzdata = "2025.1"

    def act(self, action: str, task_id: str, at_ms: int) -> None:
        """One decision, if the task is in a state for it; `commit` ends the transaction."""
        if action == "commit":
            self.commit()
        else:
            getattr(self, f"_{action}")(task_id, at_ms)

    def commit(self, *, applied_before_ms: int | None = None) -> None:
        """Close the transaction with a Progress."""
        self.open_timers.append((codec.PROGRESS, codec.encode_progress(self._progress(applied_before_ms))))
        self.timers += self.open_timers
        self.history += self.open_history
        self.open_timers, self.open_history = [], []

    def _progress(self, applied_before_ms: int | None) -> Progress:
        self._now += 1
        position = InputPosition(TOPIC_ID, self.commands, 0, -1)
        at = self._now if applied_before_ms is None else applied_before_ms
        return Progress(position, position, at, self._number, 0, self.tzdata, 0)

    def _schedule(self, task_id: str, at_ms: int) -> None:
        before = self.states.get(task_id)
        runs = before.runs if before is not None else ()
        if any(run.occurrence_ts == at_ms for run in runs):
            return
        rev = Rev(self.commands, 0)
        self.commands += 1
        queue = "slow" if at_ms % 60_000 else "default"
        labels = {"team": "a" if rev.offset % 2 else "b"}
        body = codec.encode_body(Body(f"handler-{rev.offset % 3}", b"secret", {}, labels))
        command = Command(b"c" * 16, Verb.SCHEDULE, task_id, at_ms, queue, DEFAULT_OPTIONS, body)
        spec = TaskSpec(rev, codec.encode_command(command))
        self.specs[task_id] = spec
        self.open_timers.append((codec.timers_key(codec.SPEC, task_id), codec.encode_spec(spec)))
        last = before.last_occurrence_ts if before is not None else NEVER
        self._put(task_id, TaskState(rev, at_ms, last, runs, None, NEVER, ()))

    def book(self, booking: Booking) -> None:
        """An event comes into a calendar of this bucket, or is changed there."""
        rev = Rev(self.commands, 0)
        self.commands += 1
        first = booking.expansion.first()
        assert first is not None
        options = DEFAULT_OPTIONS._replace(event=encode_booking(booking))
        body = codec.encode_body(Body("meet", b"", {}, {}))
        command = Command(b"c" * 16, Verb.SCHEDULE, booking.task_id, first.start_ms, "default", options, body)
        self.specs[booking.task_id] = TaskSpec(rev, codec.encode_command(command))
        spec = codec.encode_spec(self.specs[booking.task_id])
        self.open_timers.append((codec.timers_key(codec.SPEC, booking.task_id), spec))
        state = TaskState(rev, first.start_ms, NEVER, (), None, NEVER, ())
        self._put(booking.task_id, state)

    def _recur(self, task_id: str, at_ms: int) -> None:
        """A task that recurs, by one of several rules, from `at_ms` on."""
        before = self.states.get(task_id)
        runs = before.runs if before is not None else ()
        recurrence = RULES[at_ms // 20_000 % len(RULES)]._replace(start_ms=at_ms)
        last = admitted(recurrence)
        first = next(occurrences_of(recurrence, last).after(at_ms - 1), None)
        if first is None or any(run.occurrence_ts >= first.next_occurrence_ts for run in runs):
            return
        rev = Rev(self.commands, 0)
        self.commands += 1
        body = codec.encode_body(Body(f"handler-{rev.offset % 3}", b"secret", {}, {}))
        options = DEFAULT_OPTIONS._replace(recurrence=recurrence)
        command = Command(b"c" * 16, Verb.SCHEDULE, task_id, NEVER, "default", options, body)
        self.specs[task_id] = TaskSpec(rev, codec.encode_command(command))
        spec = codec.encode_spec(self.specs[task_id])
        self.open_timers.append((codec.timers_key(codec.SPEC, task_id), spec))
        extras = Extras(first.nominal_local, first.fold, last)
        state = TaskState(rev, first.next_occurrence_ts, NEVER, runs, None, NEVER, (), extras=extras)
        self._put(task_id, state)

    def _pause(self, task_id: str, _at_ms: int) -> None:
        """Pause what waits, or let it go on."""
        state = self.states.get(task_id)
        if state is not None and state.next_occurrence_ts != NEVER:
            extras = state.extras._replace(paused=not state.extras.paused)
            self._put(task_id, state._replace(extras=extras))

    def _fire(self, task_id: str, _at_ms: int) -> None:
        state = self.states.get(task_id)
        if state is None or state.next_occurrence_ts == NEVER or state.extras.paused:
            return
        due = state.next_occurrence_ts
        run = RunState(due, 1, state.rev, due + 3)
        recurrence = codec.decode_command(self.specs[task_id].command).options.recurrence
        following = NEVER
        if recurrence is not None:
            pointer = next(occurrences_of(recurrence, state.extras.last_local).after(due), None)
            following = NEVER if pointer is None else pointer.next_occurrence_ts
        self._put(
            task_id,
            state._replace(next_occurrence_ts=following, last_occurrence_ts=due, runs=(*state.runs, run)),
        )

    def _report(self, task_id: str, at_ms: int) -> None:
        state = self.states.get(task_id)
        if state is None or not state.runs:
            return
        run, rest = state.runs[0], state.runs[1:]
        outcome = Outcome.DEAD if at_ms % 4 else Outcome.SUCCEEDED
        due = run.occurrence_ts
        command = codec.decode_command(self.specs[task_id].command)
        self._outcome(task_id, run, outcome, command.queue, f"{outcome.value}-handler", due)
        self._after(task_id, state._replace(runs=rest), outcome, due)

    def _claim(self, task_id: str, at_ms: int) -> None:
        """A worker claims the latest run that is out; often it is held already, and changes hands."""
        state = self.states.get(task_id)
        if state is None or not state.runs or state.runs[-1].retry_at_ms != NEVER:
            return
        run = state.runs[-1]._replace(
            holder=b"h" * 16, worker=f"worker-{at_ms % 3}", started_ms=state.runs[-1].decided_ms + 4
        )
        self._put(task_id, state._replace(runs=(*state.runs[:-1], run)))

    def _fail(self, task_id: str, at_ms: int) -> None:
        """The latest run that is out fails or loses its lease; another attempt is to come."""
        state = self.states.get(task_id)
        if state is None or not state.runs or state.runs[-1].retry_at_ms != NEVER:
            return
        run = state.runs[-1]
        command = codec.decode_command(self.specs[task_id].command)
        outcome = Outcome.ATTEMPT_FAILED if at_ms % 4 else Outcome.LEASE_EXPIRED
        self._outcome(task_id, run, outcome, command.queue, "failing", run.occurrence_ts)
        retry = run._replace(
            attempt=run.attempt + 1,
            holder=b"",
            worker="",
            started_ms=NEVER,
            failures=run.failures + 1,
            retry_at_ms=run.occurrence_ts + 1_000,
        )
        self._put(task_id, state._replace(runs=(*state.runs[:-1], retry)))

    def _retry(self, task_id: str, _at_ms: int) -> None:
        """The next attempt is dispatched."""
        state = self.states.get(task_id)
        if state is None or not state.runs or state.runs[-1].retry_at_ms == NEVER:
            return
        run = state.runs[-1]
        run = run._replace(decided_ms=run.retry_at_ms + 2, retry_at_ms=NEVER)
        self._put(task_id, state._replace(runs=(*state.runs[:-1], run)))

    def _cancel(self, task_id: str, _at_ms: int) -> None:
        state = self.states.get(task_id)
        if state is None or state.next_occurrence_ts == NEVER:
            return
        due = state.next_occurrence_ts
        command = codec.decode_command(self.specs[task_id].command)
        self._outcome(task_id, RunState(due, 0, state.rev, NEVER), Outcome.CANCELLED, command.queue, "", due)
        self._after(task_id, state._replace(next_occurrence_ts=NEVER), Outcome.CANCELLED, due)

    def _after(self, task_id: str, state: TaskState, outcome: Outcome, due: int) -> None:
        """The spec goes with the last thing that the task had before it."""
        if state.next_occurrence_ts == NEVER and not state.runs:
            state = state._replace(outcome=outcome, ended_ms=due + 9)
            self.open_timers.append((codec.timers_key(codec.SPEC, task_id), None))
        self._put(task_id, state)

    def _outcome(
        self, task_id: str, run: RunState, outcome: Outcome, queue: str, handler: str, due: int
    ) -> None:
        self._number += 1
        ran = run.attempt > 0
        self.open_history.append(
            codec.encode_history(
                History(
                    self._number,
                    task_id,
                    due,
                    run.attempt,
                    run.rev,
                    outcome,
                    due + 9,
                    queue,
                    handler,
                    "worker-1" if ran else "",
                    b"r" * 16 if ran else b"",
                    run.decided_ms,
                    due + 5 if ran else NEVER,
                    due + 6 if ran else NEVER,
                    due + 8 if ran else NEVER,
                    "" if outcome in (Outcome.SUCCEEDED, Outcome.CANCELLED) else "ValueError: no",
                    b'{"n":1}' if outcome is Outcome.SUCCEEDED and due % 4 else b"",
                )
            )
        )

    def _forget(self, task_id: str, _at_ms: int) -> None:
        state = self.states.get(task_id)
        if state is not None and state.outcome is not None:
            del self.states[task_id]
            self.open_timers.append((codec.timers_key(codec.STATE, task_id), None))

    def _put(self, task_id: str, state: TaskState) -> None:
        self.states[task_id] = state
        self.open_timers.append((codec.timers_key(codec.STATE, task_id), codec.encode_state(state)))
