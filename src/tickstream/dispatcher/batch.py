"""What one transaction is made of, and how it is taken apart when one element of it cannot be applied.

Pure: no Kafka, store, thread or clock here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tickstream.codec import decode_batch, decode_reports
from tickstream.dispatcher.leases import Expired
from tickstream.dispatcher.ports import Input, InputRecord
from tickstream.errors import CodecError
from tickstream.model import DueEntry


class Piece(NamedTuple):
    """A message of an input, or as much of it as is to be applied in this transaction."""

    record: InputRecord
    until: int | None = None
    """The element before which to stop, None: all. Progress says with which to begin."""


class Batch(NamedTuple):
    """Inputs, due entries and expired leases that are decided and committed together, in this order."""

    inputs: list[Piece]
    due: list[tuple[int, DueEntry]]
    """(bucket, entry)."""
    expired: list[Expired]
    heartbeat: bool
    """Write the Progress of every bucket, changed or not."""
    now_ms: int
    moves: Sequence[tuple[int, str]] = ()
    """(bucket, task_id) of tasks that other zone data place elsewhere."""
    placed: frozenset[int] = frozenset()
    """Buckets in which nothing is left that older zone data placed."""
    given_up: str = ""
    """Why the one element in here is not applied but put aside; empty: it is to be applied."""

    @property
    def empty(self) -> bool:
        """Whether nothing at all is to be done."""
        return not (self.inputs or self.due or self.expired or self.heartbeat or self.moves or self.placed)

    @property
    def touched(self) -> set[int]:
        """The buckets of its elements."""
        pieces = {piece.record.bucket for piece in self.inputs}
        pieces |= {bucket for bucket, _ in self.due} | {lease.bucket for lease in self.expired}
        return pieces | {bucket for bucket, _ in self.moves} | self.placed

    def without(self, bucket: int) -> Batch:
        """The rest of the batch, for a bucket that was stopped."""
        return self._replace(
            inputs=[piece for piece in self.inputs if piece.record.bucket != bucket],
            due=[(number, entry) for number, entry in self.due if number != bucket],
            expired=[lease for lease in self.expired if lease.bucket != bucket],
            moves=[(number, task_id) for number, task_id in self.moves if number != bucket],
            placed=self.placed - {bucket},
        )


Applied = Callable[[InputRecord], int]
"""How many elements of a message are applied already."""


def halves(batch: Batch, applied: Applied) -> tuple[Batch, Batch] | None:
    """The batch in two, in order; None when one element is all there is.

    A message of many elements is one piece until nothing else is left; then it is halved itself. The
    heartbeat goes with the second half, and alone in the end: it is no element's fault, and none is its. So
    does `placed`.
    """
    pieces = len(batch.inputs) + len(batch.due) + len(batch.expired) + len(batch.moves)
    if pieces > 1:
        return _cut(batch, pieces // 2)
    if pieces == 1 and (batch.heartbeat or batch.placed):
        rest = Batch([], [], [], batch.heartbeat, batch.now_ms, placed=batch.placed)
        return batch._replace(heartbeat=False, placed=frozenset()), rest
    if not batch.inputs:
        return None
    (piece,) = batch.inputs
    first = applied(piece.record)
    until = _elements(piece.record) if piece.until is None else piece.until
    if until - first < 2:
        return None
    middle = (first + until) // 2
    return batch._replace(inputs=[piece._replace(until=middle)]), batch


def _cut(batch: Batch, at: int) -> tuple[Batch, Batch]:
    """The first `at` pieces, and the others."""
    of_inputs = min(at, len(batch.inputs))
    of_due = min(at - of_inputs, len(batch.due))
    of_expired = min(at - of_inputs - of_due, len(batch.expired))
    of_moves = at - of_inputs - of_due - of_expired
    first = batch._replace(
        inputs=batch.inputs[:of_inputs],
        due=batch.due[:of_due],
        expired=batch.expired[:of_expired],
        moves=batch.moves[:of_moves],
        heartbeat=False,
        placed=frozenset(),
    )
    rest = batch._replace(
        inputs=batch.inputs[of_inputs:],
        due=batch.due[of_due:],
        expired=batch.expired[of_expired:],
        moves=batch.moves[of_moves:],
    )
    return first, rest


def _elements(record: InputRecord) -> int:
    """How many commands or reports a message holds; 1 when it cannot be read, for it goes as a whole."""
    try:
        if record.source is Input.COMMANDS:
            return len(decode_batch(record.value).commands)
        return len(decode_reports(record.value).reports)
    except CodecError:
        return 1
