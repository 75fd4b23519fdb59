"""The local timer index: task specs, states and the due index of the buckets, in RocksDB.

Knows bytes and buckets; no Kafka, no decision about a task may enter here.
"""

from tickstream.timer_store.due import due_entries, held_entry
from tickstream.timer_store.store import TimerStore
from tickstream.timer_store.values import BucketMeta, StoreSizes, TaskChange

__all__ = ["BucketMeta", "StoreSizes", "TaskChange", "TimerStore", "due_entries", "held_entry"]
