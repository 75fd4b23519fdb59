"""The client: schedule, cancel, and look at tasks.

A thin shell: checks are in request.py, sending in sender.py and producer.py, verdicts in asking.py, what a
dashboard answers in reading.py. No decision of its own may enter here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack, overload

from tickstream.clock import Clock, SystemClock
from tickstream.ingest.asking import Asking, Question
from tickstream.ingest.backfill import MOST_BACKFILLED, Backfilled, Window, look, send
from tickstream.ingest.bulk import BulkSchedule, ItemResult
from tickstream.ingest.changelog import Changelog
from tickstream.ingest.connection import Connection, connect_kafka
from tickstream.ingest.ids import CommandIds
from tickstream.ingest.layout import LayoutWatch
from tickstream.ingest.pace import Pace
from tickstream.ingest.producer import CommandProducer, Submission
from tickstream.ingest.queues import InEveryBucket, QueueCommands
from tickstream.ingest.reading import Reading
from tickstream.ingest.recurring import Recurring
from tickstream.ingest.request import (
    Item,
    Requests,
    ScheduleRequest,
    cancel_command,
    instant_ms,
    item_of,
    recurring,
    schedule_command,
    seconds_of,
    task_command,
)
from tickstream.ingest.sender import NO_REPLY, CommandSender
from tickstream.ingest.together import Together
from tickstream.ingest.verdicts import VerdictTail
from tickstream.model import Command, Verb, Verdict, bucket_key, check_task_id
from tickstream.settings import Settings, chosen
from tickstream.topics import TopicNames

if TYPE_CHECKING:
    from tickstream.ingest.calendar import Calendar
    from tickstream.recurrence import Previewed

CANCEL_TIMEOUT: Final = timedelta(seconds=10)
FLUSH_S: Final = 10.0


class Client(Reading):
    """Schedules and cancels tasks, and asks a dashboard about them. Thread-safe.

    Use it as a context manager, one for a process: it owns a producer, and from the first call
    that waits for a verdict on, a thread that reads the answers.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        bootstrap: str | None = None,
        prefix: str | None = None,
        dashboard: str | None = None,
        dashboard_token: str | None = None,
        client_id: str | None = None,
        clock: Clock | None = None,
        connect: Callable[[Settings, str], Connection] = connect_kafka,
    ) -> None:
        """Connect to the brokers at `bootstrap`, or else those of TICKSTREAM_BOOTSTRAP.

        `dashboard`: address for `get` and `query`, else TICKSTREAM_DASHBOARD. `dashboard_token`: what
        it asks for, else TICKSTREAM_DASHBOARD_TOKEN or the first line of the file named by
        TICKSTREAM_DASHBOARD_TOKEN_FILE. `client_id`: shown in logs and on every command; by default
        a random one. Raises BrokerUnavailable within 5 s
        when no broker answers, LayoutMismatch when the topics are missing or disagree.
        """
        super().__init__(dashboard, dashboard_token)
        self._settings = chosen(settings, bootstrap, prefix)
        self.client_id = client_id or f"client-{os.urandom(6).hex()}"
        self._clock = clock or SystemClock()
        self._ids = CommandIds(self._clock)
        self._requests = Requests()
        self._lock = threading.Lock()
        self._tail: VerdictTail | None = None
        self._asking: Asking | None = None
        self._connection = connect(self._settings, self.client_id)
        self._layout = LayoutWatch(self._connection.layout, self._clock)
        names = TopicNames(self._settings.prefix)
        self._core = CommandProducer(self._connection.producer, names.commands, self._clock)
        self._sender = CommandSender(
            self._core, self._layout, self.client_id, self._clock, self._connection.bucket_of_key
        )

    # ----------------------------------------------------------------- commands

    @overload
    def schedule(
        self, task_id: str, *, wait: None = None, **request: Unpack[ScheduleRequest]
    ) -> Submission: ...

    @overload
    def schedule(self, task_id: str, *, wait: timedelta, **request: Unpack[ScheduleRequest]) -> Verdict: ...

    def schedule(
        self, task_id: str, *, wait: timedelta | None = None, **request: Unpack[ScheduleRequest]
    ) -> Submission | Verdict:
        """Have a task run once, at an instant, or again and again.

        Once: `run_at`, an aware datetime (parts of a millisecond round up), or `run_at_ts`, ms since the
        epoch. An instant further back than the past limit is rejected unless `allow_past`.

        Again and again: one of `every` (a timedelta), `cron` and `rrule`, on the clock of `zone`, from
        `start` until before `end`, with `rdate` and `exdate` beside a rule. `gap`, `fold` and `subday` say
        what happens when clocks change (docs/time-zones.md). `misfire` ("latest", "all", "skip") and `grace`:
        what becomes of occurrences that could not be dispatched in time. `overlap` ("skip", "allow", "queue",
        "cancel_running"): what an occurrence does that meets another in flight. `jitter`: each is dispatched
        up to that much later. `preview` shows what comes of it (docs/scheduling.md).

        What runs: `call`, from a handler's `bind`, or `payload` bytes for the handler named `handler`.
        `queue`: the call's own or "default". `labels`: for filters. A task of that id that still waits is
        replaced, or kept with `if_exists`="reject". Of tasks with the same `limit_key` one is in flight at a
        time, within a bucket: ids with one `{tag}` share one. `lease`, `timeout` and `retry` (without `never` and
        `when`) stand in for those of the call's handler. `lead`, 60 s at most: the work is sent that much
        ahead and held by a worker until its instant (docs/scheduling.md); then a cancel is too late.

        Returns at once with a Submission, whose `receipt()` waits for the acknowledgement; with
        `wait`, the dispatcher's verdict. Raises InvalidInput (nothing was sent), BrokerUnavailable,
        SendFailed, VerdictTimeout.
        """
        checked = self._requests.checked(*item_of(task_id, **request))
        command_id = self._ids.next()
        located = self._sender.element_of(command_id, checked)
        if wait is None:
            return self._sender.send(command_id, located, NO_REPLY)
        return self._ask(schedule_command(command_id, checked), located, wait)

    def preview(
        self, *, after: datetime | None = None, count: int = 10, **asked: Unpack[Recurring]
    ) -> tuple[Previewed, ...]:
        """When a task with this recurrence would occur, later than `after` (default: now); nothing is sent.

        Local and UTC times, and what a change of clocks does to each. Raises InvalidInput and its kinds.
        """
        from tickstream.recurrence.stored import preview_of

        after_ms = self._clock.wall_ms() if after is None else instant_ms("after", after, None)
        return preview_of(recurring(**asked), count, after_ms)

    @property
    def core(self) -> CommandProducer:
        """What sends; for those that wait for acknowledgements in another way than a Submission does."""
        return self._core

    @property
    def layout(self) -> LayoutWatch:
        """What this client knows of the installation."""
        return self._layout

    def cancel(self, task_id: str, *, running: bool = False, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """Cancel a task and wait for the verdict: CANCELLED, TOO_LATE with the phase, or UNKNOWN.

        `running`: ask a run in flight to stop as well, best effort (its `ctx.cancelled`, or the
        cancellation of its coroutine); the verdict is TOO_LATE all the same, lists what is in flight,
        and the run's own outcome follows. It is not tried again.

        Raises InvalidTaskId, BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        return self._about(cancel_command(self._ids.next(), task_id, running), timeout)

    def pause(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """Have no further occurrence of a task dispatched until `resume`. What is in flight goes on.

        PAUSED, TOO_LATE with the phase when nothing waits, or UNKNOWN. Raises as `cancel`.
        """
        return self._about(task_command(self._ids.next(), Verb.PAUSE, task_id), timeout)

    def resume(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """Undo `pause`; an occurrence that fell due meanwhile is dispatched at once. Also ends a fault.

        RESUMED, TOO_LATE, or UNKNOWN. Raises as `cancel`.
        """
        return self._about(task_command(self._ids.next(), Verb.RESUME, task_id), timeout)

    def trigger(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """Run a task now, beside what is scheduled, as an occurrence of its own; pauses and limits do not hold it.

        TRIGGERED with the occurrence, TOO_LATE once the task has ended, UNKNOWN, or REJECTED. Raises as `cancel`.
        """
        return self._about(task_command(self._ids.next(), Verb.TRIGGER, task_id), timeout)

    def reschedule(
        self,
        task_id: str,
        *,
        run_at: datetime | None = None,
        run_at_ts: int | None = None,
        allow_past: bool = False,
        timeout: timedelta = CANCEL_TIMEOUT,
    ) -> Verdict:
        """Another instant for a task that waits; handler, payload and options stay.

        REPLACED, TOO_LATE when nothing waits, UNKNOWN, or REJECTED. Raises InvalidInput and as `cancel`.
        """
        when = instant_ms("run_at", run_at, run_at_ts)
        command = task_command(self._ids.next(), Verb.RESCHEDULE, task_id, when, allow_past)
        return self._about(command, timeout)

    def calendar(self, calendar: str, *, zone: str = "UTC", timeout: timedelta = CANCEL_TIMEOUT) -> Calendar:
        """A calendar by its id, as "room-7"; `zone` is that of its days and floating times.

        Each call on it waits for its verdict, at most `timeout`. Raises InvalidEvent, UnknownZone.
        """
        from tickstream.ingest.calendar import Calendar

        return Calendar(
            calendar,
            zone,
            self._requests,
            self._ids.next,
            lambda command: self._about(command, timeout),
            lambda: self.dashboard,
        )

    @property
    def queues(self) -> QueueCommands:
        """Pauses and limits of queues."""
        return QueueCommands(InEveryBucket(self._ids, self._layout, self.together))

    @property
    def together(self) -> Together:
        """Sends commands that are made already; for those that make their own."""
        return Together(self._layout, self._sender, self._answers, self._clock)

    @property
    def changelog(self) -> Changelog:
        """Tasks as they stand, for those to whom a dashboard's view is not new enough."""
        return self._connection.changelog()

    def schedule_many(
        self, items: Iterable[Item], *, wait: timedelta | None = None, paced: bool = True
    ) -> Iterator[ItemResult]:
        """Schedule each item; yield one result for each, in the order of the input.

        Items travel as arrays, one message a bucket, sent when full and at the end of the input, so
        nothing is scheduled unless the results are consumed. An item that cannot be sent gets an
        error in its result, the others go on. At most `bulk.WINDOW` items are in memory. With `wait`,
        each item waits for its verdict. Without, an import keeps pace with what dispatchers apply, so
        that nobody's single command waits behind it for long; `paced=False`, or no dispatcher that
        answers: as fast as Kafka takes it. Raises BrokerUnavailable and LayoutMismatch, and what
        `items` raises, after the results of everything taken until then.
        """
        if wait is None:
            pace = Pace(self._answers(), self._clock) if paced else None
            return BulkSchedule(self._sender, self._requests, self._ids, pace=pace).run(items)
        wait_s = seconds_of("wait", wait)
        return BulkSchedule(self._sender, self._requests, self._ids, self._answers(), wait_s).run(items)

    def backfill(
        self,
        task_id: str,
        start: datetime,
        end: datetime,
        *,
        most: int = MOST_BACKFILLED,
        again: bool = False,
        dry_run: bool = False,
        timeout: timedelta = CANCEL_TIMEOUT,
    ) -> tuple[Backfilled, ...]:
        """Run the occurrences of a recurring task in the past window [start, end), by its rule as it stands now.

        Each is a task of its own with the occurrence's instant and idempotency key; what is known to have
        succeeded, or waits or runs, is left out. `again`: what succeeded is run as well, under keys of its own.
        More than `most` occurrences are refused. `dry_run`: nothing is sent. Each waits for its verdict, at most
        `timeout`. docs/scheduling.md says what comes of order and overlap. Raises InvalidInput, UnknownTask,
        NotApplied, BrokerUnavailable, LayoutMismatch; in an answer, InvalidInput, SendFailed, VerdictTimeout.
        """
        window = Window.of(start, end, self._clock.wall_ms(), most)
        key = bucket_key(check_task_id(task_id)).encode()
        bucket = self._connection.bucket_of_key(key, self._layout.buckets)
        found = look(self.changelog, task_id, bucket, window, again)
        return found if dry_run else send(found, lambda items: self.schedule_many(items, wait=timeout))

    def _about(self, command: Command, timeout: timedelta) -> Verdict:
        """Send a command about a task, and wait for its verdict."""
        self._layout.check()
        return self._ask(command, self._sender.locate(command), timeout)

    def _ask(self, command: Command, located: tuple[int, bytes, bytes], timeout: timedelta) -> Verdict:
        asking = self._answers()
        asking.expect(command.command_id)
        try:
            submission = self._sender.send(command.command_id, located, asking.reply)
            question = Question(command, submission, 0, seconds_of("wait or timeout", timeout))
            question.sent(self._clock.monotonic())
            return asking.verdict(question)
        finally:
            asking.forget(command.command_id)

    def _answers(self) -> Asking:
        """What reads the verdicts; its partition's end is known before anything asks for one."""
        with self._lock:
            if self._asking is None:
                self._tail = self._connection.verdicts()
                self._asking = Asking(self._tail, self._sender.resend, self._core.poll, self._clock)
            return self._asking

    # ----------------------------------------------------------------- life

    def flush(self, timeout: float = FLUSH_S) -> None:
        """Wait until everything sent is acknowledged, at most `timeout` seconds.

        Raises SendFailed when something was not, and its handle did not tell yet.
        """
        self._core.flush(timeout)

    def close(self) -> None:
        """Flush, then release everything. Raises SendFailed, as `flush`."""
        try:
            self.flush()
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            tail, self._tail, self._asking = self._tail, None, None
        if tail is not None:
            tail.close()
        self.close_dashboard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            # What was raised in the block says more than what was not acknowledged because of it.
            self._release()
