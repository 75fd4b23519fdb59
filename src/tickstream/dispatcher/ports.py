"""What a lane needs of the world, as small ports: the log, the ends of the log, time.

kafka_log.py carries them out on a broker; a simulator can carry them out on a simulated log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tickstream.model import Term


class Side(Term):
    """One of a lane's two producers."""

    A = "a"
    B = "b"

    @property
    def other(self) -> Side:
        """The one whose turn is next."""
        return Side.B if self is Side.A else Side.A


class Input(Term):
    """The two kinds of input partition of a bucket."""

    COMMANDS = "commands"
    REPORTS = "reports"


class InputRecord(NamedTuple):
    """One message of an input."""

    source: Input
    bucket: int
    offset: int
    leader_epoch: int
    appended_ms: int
    """The broker's time of acceptance (LogAppendTime)."""
    value: bytes | None


class OutRecord(NamedTuple):
    """One record of a transaction. `marks` names the bucket whose Progress (or Claim) this is."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    marks: int | None = None


class LogRecord(NamedTuple):
    """One record of the changelog as it is read back."""

    bucket: int
    offset: int
    key: bytes | None
    value: bytes | None


class Transactions(Protocol):
    """Two transactional producers. All methods raise LaneLost or RetryTransaction."""

    def connect(self) -> None:
        """Have both producers connected, so that a take-over need not wait for sockets."""
        ...

    def init(self, side: Side) -> None:
        """Abort what the id's last holder had open, and fence it."""
        ...

    def begin(self, side: Side) -> None: ...

    def produce(self, side: Side, records: Sequence[OutRecord]) -> None:
        """Put records into the open transaction."""
        ...

    def flush(self, side: Side) -> None:
        """Wait until every record is delivered. Raises RetryTransaction when one was not."""
        ...

    def commit(self, side: Side) -> Mapping[int, int]:
        """Commit; return bucket → offset of its marking record, from the delivery reports."""
        ...

    def abort(self, side: Side) -> None: ...


class Inputs(Protocol):
    """The lane's `commands` and `reports`, read read_committed."""

    def assign(self, positions: Mapping[tuple[Input, int], tuple[int, int]]) -> None:
        """Read (input, bucket) too, from (offset, leader epoch; -1: unknown)."""
        ...

    def poll(self, timeout_s: float, limit: int) -> Sequence[InputRecord]:
        """Up to `limit` records; waits up to `timeout_s` for the first, never for the rest.

        Raises BucketStopped when a position lies outside its log.
        """
        ...

    def positions(self) -> Mapping[tuple[Input, int], int]:
        """Next offset of each input, past control and aborted records."""
        ...


class Changelog(Protocol):
    """`timers`, read back read_committed."""

    def open(self, offsets: Mapping[int, int]) -> None:
        """Read these buckets too, each from its offset, NEVER: from the log start."""
        ...

    def read(self, timeout_s: float, limit: int) -> Sequence[LogRecord]: ...

    def done(self, bucket: int) -> None:
        """The bucket is read far enough: read no more of it."""
        ...

    def close(self) -> None: ...


class FollowedChangelog(Changelog, Protocol):
    """`timers`, read on and on."""

    def positions(self) -> Mapping[int, int]:
        """Next offset of each bucket, past control and aborted records; a bucket may be missing."""
        ...


class Ends(Protocol):
    """The end probe: a question that is answered later."""

    def ask(self) -> None:
        """Ask for the ends of all inputs of the lane (READ_UNCOMMITTED)."""
        ...

    def answer(self) -> Mapping[tuple[Input, int], int] | None:
        """(input, bucket) → end offset; None: not answered yet, or could not be asked."""
        ...

    def pending(self) -> bool:
        """Whether a question is under way."""
        ...


class TimersEnds(Protocol):
    """Where the changelog ends, every bucket. Both raise LaneLost when the broker cannot be asked."""

    def high(self) -> Mapping[int, int]:
        """Behind the last record, committed or not."""
        ...

    def stable(self) -> Mapping[int, int]:
        """Behind the last record that a reader of committed records can see."""
        ...


class Replies(Protocol):
    """`verdicts` and `signals`, after the commit, plain and best effort."""

    def send(self, client_id: str, partition: int, value: bytes) -> None:
        """A VerdictBatch."""
        ...

    def signal(self, run_id: bytes, value: bytes) -> None:
        """A Signal."""
        ...


class LogFacts(NamedTuple):
    """What a take-over must know of the inputs: their ids and where they start."""

    topic_ids: Mapping[Input, bytes]
    timers_id: bytes
    starts: Mapping[tuple[Input, int], int]
    timers_starts: Mapping[int, int]


class Facts(Protocol):
    """Metadata of the cluster."""

    def log(self) -> LogFacts: ...

    def queues(self) -> frozenset[str]:
        """Queues that exist, at most five seconds old."""
        ...
