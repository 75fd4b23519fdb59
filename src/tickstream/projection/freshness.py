"""How true an answer is: its staleness, the bucket that holds it back, and whether a command is in it.

Values only: no database, no HTTP, no clock may enter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tickstream.model import Receipt
from tickstream.projection.rows import Position


class Freshness(NamedTuple):
    """What stands in every answer."""

    as_of: int
    """The reader's clock when the answer was made, ms UTC."""
    staleness_ms: int
    """`as_of` less the least T of all buckets: every command accepted longer ago than this is in the answer.

    Never below 0. A bucket that no dispatcher has ever had makes this as old as the epoch.
    """
    slowest_bucket: int
    """The bucket with the least T."""
    restoring: tuple[int, ...]
    """Buckets that are being rebuilt or catch up in parts; their rows may be ahead of each other."""
    positions: Mapping[int, Position]
    of_buckets: int
    """How many buckets there are: more than positions when this is the index of a shard."""

    def fields(self) -> dict[str, Any]:
        """As it stands in an answer."""
        return {
            "as_of": self.as_of,
            "staleness_ms": self.staleness_ms,
            "slowest_bucket": self.slowest_bucket,
            "restoring": list(self.restoring),
            "of_buckets": self.of_buckets,
            "position": {
                str(b): {"timers": p.timers, "history": p.history} for b, p in self.positions.items()
            },
        }


def freshness(positions: Mapping[int, Position], now_ms: int, of_buckets: int) -> Freshness:
    """The freshness of an answer made from `positions`, of all that the index follows, at `now_ms`."""
    slowest = min(positions, key=lambda b: (positions[b].applied_before_ms, b))
    return Freshness(
        now_ms,
        max(0, now_ms - positions[slowest].applied_before_ms),
        slowest,
        tuple(b for b, p in positions.items() if p.restoring),
        positions,
        of_buckets,
    )


def missing(receipts: Iterable[Receipt], positions: Mapping[int, Position]) -> list[Receipt]:
    """The receipts whose command is not visible yet.

    A receipt of a bucket that does not exist is never visible: the caller checks that first.
    """
    return [
        r
        for r in receipts
        if (positions[r.bucket].commands_offset, positions[r.bucket].commands_item) <= (r.offset, r.item)
    ]
