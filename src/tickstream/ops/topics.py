"""Which topics an installation should have, given what is wanted and what is there.

Decides only: kafka.py creates topics and reads their settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tickstream.errors import LayoutMismatch
from tickstream.model import DEFAULT_QUEUE
from tickstream.topics import Topic, TopicNames, topic_table

DEV_BUCKETS: Final = 8
DEV_LANES: Final = 4
"""For one machine; production starts with 64 buckets and 16 lanes."""


def wanted_topics(
    names: TopicNames,
    partitions: Mapping[str, int],
    *,
    queues: Iterable[str] = (),
    buckets: int | None = None,
    lanes: int | None = None,
) -> tuple[Topic, ...]:
    """The table for this prefix: `queues` beside those that exist, numbers as they are or as given.

    `partitions`: topic name → partition count, of the whole cluster. Raises InvalidInput on a bad name or
    number, LayoutMismatch when a given number differs from the one recorded in the cluster.
    """
    work = names.work("")
    existing = (topic.removeprefix(work) for topic in partitions if topic.startswith(work))
    generation, recorded_lanes = _recorded_lanes(names, partitions)
    return topic_table(
        names,
        buckets=_settled("buckets", buckets, _recorded_buckets(names, partitions), DEV_BUCKETS, names.prefix),
        lanes=_settled("lanes", lanes, recorded_lanes, DEV_LANES, names.prefix),
        layout=generation,
        queues=tuple(sorted({DEFAULT_QUEUE, *queues, *existing})),
    )


def _recorded_buckets(names: TopicNames, partitions: Mapping[str, int]) -> int | None:
    # `timers` has the say; the others count when an earlier creation stopped half way.
    for topic in (names.timers, names.commands, names.reports, names.history):
        if topic in partitions:
            return partitions[topic]
    return None


def _recorded_lanes(names: TopicNames, partitions: Mapping[str, int]) -> tuple[int, int | None]:
    """The highest generation g and the number of lanes in it; 0 and None when there is none."""
    stem = f"{names.prefix}lanes."
    generations = [int(t.removeprefix(stem)) for t in partitions if t.startswith(stem)]
    if not generations:
        return 0, None
    highest = max(generations)
    return highest, partitions[names.lanes(highest)]


def _settled(what: str, given: int | None, recorded: int | None, default: int, prefix: str) -> int:
    if recorded is None:
        return default if given is None else given
    if given not in (None, recorded):
        raise LayoutMismatch(
            f"prefix {prefix!r} has {recorded} {what}, not {given}: their number is fixed once the topics exist; "
            f"leave --{what} out, or use another --prefix"
        )
    return recorded
