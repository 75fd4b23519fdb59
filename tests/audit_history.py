"""A history written by hand, record by record, as the audit's tests plant their faults in it.

Fed to the fold directly, or produced to real topics: offsets are counted as a broker counts them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tickstream.codec import (
    CLAIM,
    PROGRESS,
    STATE,
    encode_batch,
    encode_claim,
    encode_command,
    encode_history,
    encode_progress,
    encode_reports,
    encode_state,
    encode_work,
    timers_key,
)
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TERMS,
    NEVER,
    NO_EXTRAS,
    Claim,
    Command,
    Extras,
    History,
    InputPosition,
    Options,
    Outcome,
    Progress,
    Receipt,
    RecentCommand,
    Report,
    ReportKind,
    Rev,
    RunState,
    TaskState,
    Verb,
    VerdictKind,
    Work,
    bucket_of,
    lane_of,
)
from tickstream.ops.audit.fold import Evidence
from tickstream.topics import Layout, TopicNames

T0 = 1_800_000_000_000
"""An instant for everybody to count from, ms."""


class Record(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    at_ms: int
    key: bytes | None
    value: bytes | None


class Written:
    """The records of an installation, as written so far."""

    def __init__(self, prefix: str = "t.", *, buckets: int = 4, lanes: int = 2, now: int = T0) -> None:
        self.names = TopicNames(prefix)
        self.layout = Layout(buckets, lanes, 0, frozenset({DEFAULT_QUEUE}))
        self.now = now
        self.name = ""
        """For whoever plants several faults: part of the present one's task ids."""
        self.records: list[Record] = []
        self._ends: Counter[tuple[str, int]] = Counter()
        self._work_numbers: Counter[int] = Counter()
        self._history_numbers: Counter[int] = Counter()
        self._ids = 0

    def evidence(self, starts: dict[tuple[str, int], int] | None = None) -> Evidence:
        """Everything at or above `starts`, folded."""
        starts = starts or {}
        evidence = Evidence(self.names, self.layout, starts)
        offsets: Counter[tuple[str, int]] = Counter()
        for record in self.records:
            place = (record.topic, record.partition)
            if offsets[place] >= starts.get(place, 0):
                evidence.add(
                    record.topic, record.partition, offsets[place], record.at_ms, record.key, record.value
                )
            offsets[place] += 1
        return evidence

    def bucket(self, task_id: str) -> int:
        """Where the task lives."""
        return bucket_of(task_id, self.layout.buckets)

    def new_id(self) -> bytes:
        """A command or run id that nothing else has."""
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def append(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Write one record at the present time; its offset."""
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        self.records.append(Record(topic, partition, self.now, key, value))
        return offset

    # ----------------------------------------------------------------------- clients and workers

    def schedule(
        self,
        task_id: str,
        when: int,
        *,
        options: Options = DEFAULT_OPTIONS,
        queue: str = DEFAULT_QUEUE,
        command_id: bytes | None = None,
        bucket: int | None = None,
    ) -> Receipt:
        """A Schedule, accepted at the present time."""
        command = Command(command_id or self.new_id(), Verb.SCHEDULE, task_id, when, queue, options, b"body")
        return self._command(command, bucket)

    def cancel(self, task_id: str, *, command_id: bytes | None = None) -> Receipt:
        """A Cancel, accepted at the present time."""
        return self._command(
            Command(command_id or self.new_id(), Verb.CANCEL, task_id, NEVER, "", DEFAULT_OPTIONS, b""), None
        )

    def command(
        self, task_id: str, verb: Verb, when: int = NEVER, *, command_id: bytes | None = None
    ) -> Receipt:
        """Any other command about the task, accepted at the present time."""
        return self._command(
            Command(command_id or self.new_id(), verb, task_id, when, "", DEFAULT_OPTIONS, b""), None
        )

    def set_aside(self, task_id: str, when: int, command_id: bytes) -> None:
        """A Schedule in `dead-letter`, as a dispatcher puts one there that it fails on."""
        command = Command(command_id, Verb.SCHEDULE, task_id, when, DEFAULT_QUEUE, DEFAULT_OPTIONS, b"body")
        value = encode_batch("test", -1, [encode_command(command)])
        self.append(self.names.dead_letter, 0, task_id.encode(), value)

    def _command(self, command: Command, bucket: int | None) -> Receipt:
        where = self.bucket(command.task_id) if bucket is None else bucket
        value = encode_batch("test", -1, [encode_command(command)])
        return Receipt(where, self.append(self.names.commands, where, None, value), 0)

    def report(
        self,
        task_id: str,
        occurrence_ts: int,
        started_ms: int,
        *,
        attempt: int = 1,
        run_id: bytes | None = None,
        kind: ReportKind = ReportKind.SUCCEEDED,
    ) -> None:
        """A worker's report of a run, that it succeeded unless said otherwise."""
        report = Report(
            kind,
            task_id,
            occurrence_ts,
            attempt,
            run_id or self.new_id(),
            "handler",
            started_ms,
            started_ms,
            started_ms + 1,
            "",
        )
        self.append(self.names.reports, self.bucket(task_id), None, encode_reports("worker", [report]))

    # ----------------------------------------------------------------------- dispatchers

    def work(
        self,
        task_id: str,
        occurrence_ts: int,
        rev: Receipt,
        *,
        attempt: int = 1,
        decided_ms: int | None = None,
        not_before_ms: int = NEVER,
    ) -> None:
        """A Work record, decided at its instant unless said otherwise; numbered on in its bucket."""
        self._work_numbers[self.bucket(task_id)] += 1
        work = Work(
            self.bucket(task_id),
            self._work_numbers[self.bucket(task_id)],
            task_id,
            occurrence_ts,
            attempt,
            Rev(rev.offset, rev.item),
            occurrence_ts if decided_ms is None else decided_ms,
            DEFAULT_TERMS.lease_ms,
            DEFAULT_TERMS.timeout_ms,
            b"body",
            not_before_ms,
        )
        # Any partition but the first attempt's.
        partition = (work.bucket + attempt - 1) % self.layout.buckets
        self.append(self.names.work(DEFAULT_QUEUE), partition, task_id.encode(), encode_work(work))

    def history(
        self,
        task_id: str,
        occurrence_ts: int,
        rev: Receipt,
        outcome: Outcome,
        *,
        attempt: int = 1,
        reason: str = "",
        through_ts: int = NEVER,
    ) -> None:
        """The outcome of an occurrence; numbered on in its bucket."""
        self._history_numbers[self.bucket(task_id)] += 1
        record = History(
            self._history_numbers[self.bucket(task_id)],
            task_id,
            occurrence_ts,
            attempt,
            Rev(rev.offset, rev.item),
            outcome,
            self.now,
            DEFAULT_QUEUE,
            "handler",
            "worker",
            b"",
            NEVER,
            NEVER,
            NEVER,
            NEVER,
            reason,
            through_ts=through_ts,
        )
        self.append(self.names.history, self.bucket(task_id), task_id.encode(), encode_history(record))

    def state(
        self,
        task_id: str,
        rev: Receipt,
        *,
        waiting_for: int = NEVER,
        runs: Sequence[RunState] = (),
        recent: Sequence[tuple[bytes, VerdictKind]] = (),
        extras: Extras = NO_EXTRAS,
    ) -> None:
        """A TaskState."""
        state = TaskState(
            Rev(rev.offset, rev.item),
            waiting_for,
            NEVER,
            tuple(runs),
            None,
            NEVER,
            tuple(RecentCommand(command_id, kind, "") for command_id, kind in recent),
            extras=extras,
        )
        self.append(self.names.timers, self.bucket(task_id), timers_key(STATE, task_id), encode_state(state))

    def progress(self, bucket: int, *, commands: int = 0, at: int | None = None) -> None:
        """A Progress that has everything of the bucket behind itself, of commands those below that offset."""
        self.now = self.now if at is None else at
        here = InputPosition(bytes(16), commands, 0, 0)
        reports = InputPosition(bytes(16), self._ends[self.names.reports, bucket], 0, 0)
        numbers = (self._history_numbers[bucket], self._work_numbers[bucket])
        progress = Progress(here, reports, self.now, *numbers, "2026a", 0)
        self.append(self.names.timers, bucket, timers_key(PROGRESS), encode_progress(progress))

    def claim(self, bucket: int, *, at: int | None = None) -> None:
        """A Claim of the bucket's lane."""
        self.now = self.now if at is None else at
        claim = Claim("heir", lane_of(bucket, self.layout.lanes), 0, self.now)
        self.append(self.names.timers, bucket, timers_key(CLAIM), encode_claim(claim))

    # ----------------------------------------------------------------------- whole lives

    def life(self, task_id: str, when: int, *, started_after: int = 20) -> Receipt:
        """A one-shot as it should be: asked for, dispatched, run, recorded."""
        rev = self.schedule(task_id, when)
        self.work(task_id, when, rev, decided_ms=when + 5)
        self.report(task_id, when, when + started_after)
        self.history(task_id, when, rev, Outcome.SUCCEEDED)
        self.progress(rev.bucket, commands=rev.offset + 1)
        return rev

    def retried_life(self, task_id: str, when: int) -> Receipt:
        """A one-shot whose first attempt failed, whose second lost its worker, and whose third succeeded."""
        rev = self.schedule(task_id, when)
        for attempt, outcome in enumerate(
            (Outcome.ATTEMPT_FAILED, Outcome.LEASE_EXPIRED, Outcome.SUCCEEDED), start=1
        ):
            begun, run_id = when + 1_000 * (attempt - 1), self.new_id()
            self.work(task_id, when, rev, attempt=attempt, decided_ms=begun + 5)
            self.report(task_id, when, begun + 20, attempt=attempt, run_id=run_id, kind=ReportKind.CLAIMED)
            self.report(task_id, when, begun + 20, attempt=attempt, run_id=run_id, kind=ReportKind.HEARTBEAT)
            if outcome is not Outcome.LEASE_EXPIRED:
                kind = ReportKind.SUCCEEDED if outcome is Outcome.SUCCEEDED else ReportKind.FAILED
                self.report(task_id, when, begun + 20, attempt=attempt, run_id=run_id, kind=kind)
            self.history(task_id, when, rev, outcome, attempt=attempt)
        self.progress(rev.bucket, commands=rev.offset + 1)
        return rev

    def cancelled_life(self, task_id: str, when: int) -> tuple[Receipt, Receipt]:
        """A one-shot that was cancelled in time: receipts of the Schedule and of the Cancel."""
        rev = self.schedule(task_id, when)
        cancel = self.cancel(task_id)
        self.history(task_id, when, rev, Outcome.CANCELLED, attempt=0)
        self.progress(rev.bucket, commands=cancel.offset + 1)
        return rev, cancel
