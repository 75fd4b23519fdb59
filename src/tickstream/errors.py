"""Every error that tickstream raises, in one tree, named by what has to be done.

The message is made by the class, so that it always says what was wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta


class TickstreamError(Exception):
    """Anything tickstream raises on purpose."""


# --------------------------------------------------------------------------- the caller's input


class InvalidInput(TickstreamError, ValueError):
    """The call cannot be carried out as given; nothing was sent."""


class InvalidTaskId(InvalidInput):
    """A task id must be 1-255 bytes of NFC UTF-8 without control characters."""

    def __init__(self, task_id: object) -> None:
        shown = repr(task_id if len(repr(task_id)) <= 80 else repr(task_id)[:80] + "…")
        size = f", it has {len(task_id.encode('utf-8', 'replace'))} bytes" if isinstance(task_id, str) else ""
        super().__init__(
            f"task_id {shown}: must be 1-255 bytes of NFC UTF-8 without control characters{size}"
        )


class NaiveDatetime(InvalidInput):
    """A datetime without a time zone does not name an instant."""

    def __init__(self, name: str, value: object) -> None:
        super().__init__(
            f"{name}={value!r} has no time zone; pass an aware datetime, for example {name}=datetime(…, tzinfo=UTC)"
        )


class PayloadTooLarge(InvalidInput):
    """The payload, or the command around it, is over the limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} has {size} bytes, the limit is {limit}; store it elsewhere and pass a reference"
        )


class PayloadUnreadable(InvalidInput):
    """What a handler was sent is not what it takes: no JSON object, or of a version it does not know."""


class UnknownQueue(InvalidInput):
    """The queue has no work topic."""

    def __init__(self, queue: str, known: Sequence[str]) -> None:
        have = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"queue {queue!r} does not exist (there are: {have}); create it with: tickstream topics create --queue {queue}"
        )


class QueueRefused(InvalidInput):
    """A dispatcher did not set what was asked for a queue."""

    def __init__(self, queue: str, reason: str) -> None:
        super().__init__(f"queue {queue!r}: {reason}")


class UnknownHandler(TickstreamError):
    """A task names a handler that the worker's app does not have."""

    def __init__(self, handler: str, known: Sequence[str]) -> None:
        shown = handler if len(handler) <= 80 else handler[:80] + "…"
        have = ", ".join(sorted(known)[:20]) or "none"
        super().__init__(
            f"no handler {shown!r} in this worker's app (it has: {have}); register it, or give the task a queue "
            "whose workers have it"
        )


class LayoutMismatch(TickstreamError):
    """The topics are not the ones this process was told of, or do not agree with each other."""


class UnknownTask(TickstreamError):
    """Nothing is known of the task that was asked for."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id!r}, or it has ended, and its rule with it")


# --------------------------------------------------------------------------- the cluster


class BrokerUnavailable(TickstreamError):
    """No broker answered, or the dev broker could not be started."""


class NotApplied(BrokerUnavailable):
    """Commands are accepted that no dispatcher has applied, so nobody can say where tasks stand."""

    def __init__(self, buckets: Sequence[int]) -> None:
        shown = ", ".join(map(str, buckets[:8])) + ("…" if len(buckets) > 8 else "")
        super().__init__(
            f"bucket {shown}: commands were accepted there that no dispatcher has applied yet, so where its tasks "
            "stand is not known; is one running? (tickstream dispatcher run)"
        )


class SendFailed(TickstreamError):
    """The broker did not acknowledge the command; it may or may not be in the log."""


class VerdictTimeout(TickstreamError):
    """The command is accepted, and its verdict did not come in time."""

    def __init__(self, task_id: str, receipt: object, timeout_s: float) -> None:
        self.receipt = receipt
        super().__init__(
            f"no verdict on {task_id!r} within {timeout_s:g} s; the command is accepted (receipt {receipt}) and will be "
            "applied once a dispatcher owns its bucket; is one running? (tickstream dispatcher run)"
        )


class DashboardUnavailable(TickstreamError):
    """No dashboard answered, or it could not answer in time."""


# --------------------------------------------------------------------------- the wire


class CodecError(TickstreamError):
    """A value of a topic could not be read."""


class UnknownSchema(CodecError):
    """The value was written under a schema that this release does not know."""

    def __init__(self, fingerprint: bytes) -> None:
        super().__init__(
            f"schema fingerprint {fingerprint.hex()} is unknown: a newer release wrote this; upgrade this process first"
        )


class MalformedValue(CodecError):
    """The value is no single-object encoding of the record expected here."""


# --------------------------------------------------------------------------- recovery asked of the dispatcher


class LaneLost(TickstreamError):
    """This owner no longer has the lane, or cannot know: drop it, claim again from step 2."""


class LaneFenced(LaneLost):
    """Another owner has claimed the lane, or the coordinator gave up waiting: as LaneLost."""


class RetryTransaction(TickstreamError):
    """The transaction was aborted; its decisions are void, the same batch is decided again."""


class RecordRefused(RetryTransaction):
    """The log does not take a record for what it holds: the same batch would be refused again."""


class NotInFormat(RecordRefused, InvalidInput):
    """The record says what the format that is written (`format.write`) has no words for."""

    def __init__(self, record: str, version: int) -> None:
        super().__init__(
            f"a {record} says something that format {version} cannot; upgrade every process, then raise format.write "
            "(TICKSTREAM_FORMAT_WRITE)"
        )


class RecordTooLarge(TickstreamError):
    """A decision came to a record that no topic takes."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        super().__init__(f"a record of {size} bytes for {topic}, the limit is {limit}")


class BatchPoisoned(TickstreamError):
    """A batch cannot be applied as it is: halve it, until what is wrong stands alone."""

    def __init__(self, reason: str, *, by_content: bool) -> None:
        self.reason = reason
        self.by_content = by_content
        """It is what the batch holds. Else it may be the broker, and no element is to blame."""
        super().__init__(reason)


class StoreCorrupted(TickstreamError):
    """The local store cannot be trusted: wipe it and restore it from the changelog."""


class StoreFailed(TickstreamError):
    """The local store could not be read or written, for want of room, say; the log is right."""


class StoreRefused(TickstreamError):
    """A write came from a past owner of the bucket or from another state; nothing was written."""


class BucketStopped(TickstreamError):
    """The bucket cannot go on without a person: the alarm says why."""

    def __init__(self, bucket: int, reason: str) -> None:
        self.bucket = bucket
        self.reason = reason
        super().__init__(f"bucket {bucket} is stopped: {reason}")


class ProcessKeepsFailing(TickstreamError):
    """A child process ends again and again, and starting it once more is of no use."""

    def __init__(self, index: int, times: int, code: int) -> None:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        often = (
            f"{times} times in a row, each time soon after its start, the last time"
            if times > 1
            else "at once"
        )
        super().__init__(
            f"dispatcher process {index} ended {often} with {how}; it is not started again. What it said stands "
            "above: remove the cause, then start this command again"
        )


# --------------------------------------------------------------------------- recovery asked of the projection


class DataDirInUse(InvalidInput):
    """Another process keeps its data in this directory."""

    def __init__(self, data_dir: object) -> None:
        super().__init__(
            f"{data_dir} is in use by another process; stop that one, or pass another directory with --data"
        )


class IndexNotReady(TickstreamError):
    """The projection has not made its index yet, or is making it anew: ask again."""


class IndexOutdated(TickstreamError):
    """The index cannot be carried on from where it stands: wipe it and build it anew."""


# --------------------------------------------------------------------------- a handler's run


class RetryIn(TickstreamError):
    """The handler ended its attempt and said when to try again."""

    def __init__(self, delay: timedelta, reason: str = "") -> None:
        if not isinstance(delay, timedelta) or delay < timedelta(0):
            raise InvalidInput(f"retry_in({delay!r}): a timedelta, zero or more")
        self.delay = delay
        self.reason = reason
        super().__init__(f"again in {delay}" + (f": {reason}" if reason else ""))

    def __reduce__(self) -> tuple[type[RetryIn], tuple[timedelta, str]]:
        # Made anew from its parts: an exception of a handler in another process travels pickled.
        return RetryIn, (self.delay, self.reason)


class RunBusy(TickstreamError):
    """Another run holds the idempotency key; this attempt fails, the next one finds it done or free."""

    def __init__(self, key: str, run_id: bytes) -> None:
        self.key = key
        self.run_id = run_id
        who = f"run {run_id.hex()}" if run_id else "another run"
        super().__init__(f"{who} holds idempotency key {key!r}; this attempt made no effect")

    def __reduce__(self) -> tuple[type[RunBusy], tuple[str, bytes]]:
        return RunBusy, (self.key, self.run_id)


class RunDisplaced(TickstreamError):
    """A run with a higher fence took the idempotency key while this one was at work."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"idempotency key {key!r} went to a later run meanwhile: the effect may have been made twice"
        )

    def __reduce__(self) -> tuple[type[RunDisplaced], tuple[str]]:
        return RunDisplaced, (self.key,)


class StoreNotPrepared(TickstreamError):
    """The idempotency store has no table in this database."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"there is no table {table} in this database; call PostgresIdempotency.prepare(conn) once, "
            "or run the statement in docs/idempotency.md as its owner"
        )


class MissingExtra(TickstreamError):
    """A part of tickstream needs a package that comes with an extra."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more packages; install them with: pip install 'tickstream[{extra}]'")


# --------------------------------------------------------------------------- schedules


class InvalidSchedule(InvalidInput):
    """The schedule cannot be read, or its standard forbids it."""

    def __init__(self, part: str, value: object, reason: str) -> None:
        self.part = part
        super().__init__(f"{part} {value!r}: {reason}")


class UnknownZone(InvalidInput):
    """There is no such zone in the tz database."""

    def __init__(self, key: object, version: str) -> None:
        super().__init__(
            f"zone {key!r} is not in the tz database ({version}); use an IANA name, for example Europe/Berlin or UTC"
        )


class NeverOccurs(InvalidInput):
    """The schedule is well formed, and no instant answers it."""

    def __init__(self, schedule: object, why: str) -> None:
        super().__init__(f"{schedule} never occurs: {why}")


class InvalidEvent(InvalidInput):
    """The event cannot be read, or makes no sense."""

    def __init__(self, part: str, value: object, reason: str) -> None:
        self.part = part
        super().__init__(f"{part} {value!r}: {reason}")
