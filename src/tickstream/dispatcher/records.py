"""A bucket's outcome as records for the log and changes for the store: each thing encoded once.

Pure. Whatever could make a transaction fail for its content is checked here, before it begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import Final, NamedTuple

from tickstream.codec import (
    PROGRESS,
    QUEUE,
    SPEC,
    STATE,
    encode_history,
    encode_progress,
    encode_queue,
    encode_spec,
    encode_state,
    encode_verdicts,
    encode_work,
    timers_key,
)
from tickstream.dispatcher.outcome import BucketOutcome, DeadLetter, Reply
from tickstream.dispatcher.ports import OutRecord
from tickstream.errors import RecordTooLarge
from tickstream.model import DueEntry, Verdict
from tickstream.settings import MAX_RECORD_BYTES
from tickstream.timer_store import TaskChange
from tickstream.topics import DEAD_LETTER_PARTITIONS, TopicNames

_VERDICTS_TOGETHER: Final = 500
"""A verdict has at most some 1.5 KB (an id of 255 bytes, a detail), a message 1 MiB."""
_MAX_LETTER_BYTES: Final = MAX_RECORD_BYTES - 16 * 1024
"""Of a dead letter: what is longer than any record may be is kept cut short."""
_MAX_DETAIL_BYTES: Final = 4 * 1024


@lru_cache
def _stride(buckets: int) -> int:
    """How far apart the partitions of two attempts lie: coprime to B, near 0.62 B (Fibonacci hashing).

    So attempts visit every partition before they come back, and neighbours go far from each other.
    """
    start = max(1, round(0.62 * buckets))
    return next(
        s for d in range(buckets + 1) for s in (start + d, start - d) if s > 0 and gcd(s, buckets) == 1
    )


def work_partition(bucket: int, attempt: int, buckets: int) -> int:
    """Where attempt n of a task lies: another partition each time, so that another worker gets it."""
    return (bucket + (attempt - 1) * _stride(buckets)) % buckets


class EncodedOutcome(NamedTuple):
    """One bucket's share of a transaction, ready to be produced and stored."""

    bucket: int
    records: list[OutRecord]
    """Progress stands last."""
    changes: list[TaskChange]
    stale: list[DueEntry]
    queues: dict[str, bytes]
    """By name, the encoded QueueState of every queue that something was set for."""
    progress_bytes: bytes


def encode_outcome(outcome: BucketOutcome, names: TopicNames, buckets: int) -> EncodedOutcome:
    """Records in the order in which they are produced: changelog, work, history, dead letters, Progress.

    Raises RecordTooLarge, and what an encoder raises on a value that it cannot hold.
    """
    bucket, timers, history_topic = outcome.bucket, names.timers, names.history
    records: list[OutRecord] = []
    changes: list[TaskChange] = []
    for task_id, task in outcome.after.items():
        before = outcome.before[task_id]
        if task is before:
            continue
        spec_bytes = encode_spec(task.spec) if task.spec and task.spec is not before.spec else None
        state_bytes = encode_state(task.state) if task.state else None
        changes.append(
            TaskChange(task_id, before.spec, before.state, task.spec, task.state, spec_bytes, state_bytes)
        )
        if task.spec is not before.spec:
            records.append(OutRecord(timers, bucket, timers_key(SPEC, task_id), spec_bytes))
        records.append(OutRecord(timers, bucket, timers_key(STATE, task_id), state_bytes))
    queues = {name: encode_queue(state) for name, state in outcome.gates.settings.items()}
    records.extend(
        OutRecord(timers, bucket, timers_key(QUEUE, name), value) for name, value in queues.items()
    )
    for queue, work in outcome.work:
        partition = work_partition(bucket, work.attempt, buckets)
        records.append(OutRecord(names.work(queue), partition, work.task_id.encode(), encode_work(work)))
    for history in outcome.history:
        records.append(OutRecord(history_topic, bucket, history.task_id.encode(), encode_history(history)))
    records.extend(_dead_letter(bucket, letter, names) for letter in outcome.dead_letters)
    progress = encode_progress(outcome.progress)
    records.append(OutRecord(timers, bucket, timers_key(PROGRESS), progress, marks=bucket))
    for record in records:
        if record.value is not None and len(record.value) > MAX_RECORD_BYTES:
            raise RecordTooLarge(record.topic, len(record.value), MAX_RECORD_BYTES)
    return EncodedOutcome(bucket, records, changes, outcome.stale, queues, progress)


def _dead_letter(bucket: int, letter: DeadLetter, names: TopicNames) -> OutRecord:
    headers = (
        ("reason", letter.reason.value.encode()),
        ("detail", letter.detail.encode()[:_MAX_DETAIL_BYTES]),
        ("source", letter.source.encode()),
        ("bucket", str(bucket).encode()),
        ("bytes", str(len(letter.value)).encode()),
        *((("queue", letter.queue.encode()),) if letter.queue else ()),
    )
    # All of one bucket's letters in one partition, so that a transaction touches one more, not four.
    partition = bucket % DEAD_LETTER_PARTITIONS
    return OutRecord(
        names.dead_letter,
        partition,
        letter.task_id.encode() or None,
        letter.value[:_MAX_LETTER_BYTES],
        headers,
    )


def encode_replies(replies: Iterable[Reply]) -> list[tuple[str, int, bytes]]:
    """(client_id, partition, VerdictBatch): the answers of one transaction, up to 500 of a client's together."""
    by_client: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for reply in replies:
        by_client[reply.client_id, reply.partition].append(reply.verdict)
    return [
        (client, partition, encode_verdicts(client, verdicts[at : at + _VERDICTS_TOGETHER]))
        for (client, partition), verdicts in by_client.items()
        for at in range(0, len(verdicts), _VERDICTS_TOGETHER)
    ]
