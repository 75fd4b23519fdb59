"""The timer store on a real RocksDB: due index, tokens, restore, corruption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tickstream.codec import encode_queue, encode_spec, encode_state
from tickstream.errors import StoreCorrupted, StoreFailed, StoreRefused
from tickstream.model import (
    NEVER,
    DueEntry,
    DueKind,
    Extras,
    Outcome,
    QueueLimits,
    QueueState,
    Rev,
    TaskSpec,
    TaskState,
)
from tickstream.timer_store import BucketMeta, TaskChange, TimerStore, due_entries
from tickstream.timer_store.keys import due_entry, due_key

BUCKET = 3
META = BucketMeta(1, b"i" * 16, 7, b"progress")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TimerStore]:
    with TimerStore(tmp_path / "store") as opened:
        yield opened


def waiting(at_ms: int, rev: int = 1) -> tuple[TaskSpec, TaskState]:
    return TaskSpec(Rev(rev, 0), b"command"), TaskState(Rev(rev, 0), at_ms, NEVER, (), None, NEVER, ())


def added(task_id: str, at_ms: int) -> TaskChange:
    spec, state = waiting(at_ms)
    return TaskChange(task_id, None, None, spec, state, encode_spec(spec), encode_state(state))


def put(store: TimerStore, *changes: TaskChange, token: int | None = None) -> int:
    token = token or store.acquire(BUCKET)
    meta = store.meta(BUCKET)
    at = meta.next_offset if meta else 0
    store.apply(BUCKET, token, at, changes, META._replace(next_offset=at + 1))
    return token


def test_due_entries_come_in_order_of_instant_and_of_their_bucket_only(store: TimerStore) -> None:
    put(store, added("late", 3_000), added("early", 1_000), added("middle", 2_000))
    assert [e.task_id for e in store.due(BUCKET, 2_000, 10)] == ["early", "middle"]
    assert [e.task_id for e in store.due(BUCKET, 9_000, 2)] == ["early", "middle"]
    assert [e.task_id for e in store.due(BUCKET, 9_000, 9, since_ms=1_001)] == ["middle", "late"]
    assert store.due(BUCKET - 1, 9_000, 9) == store.due(BUCKET + 1, 9_000, 9) == []
    assert store.next_due_ms(BUCKET) == 1_000
    assert store.next_due_ms(BUCKET + 1) is None


def test_a_change_moves_the_due_entry(store: TimerStore) -> None:
    token = put(store, added("t", 1_000))
    old_spec, old_state = waiting(1_000)
    new_spec, new_state = waiting(5_000, rev=2)
    move = TaskChange(
        "t", old_spec, old_state, new_spec, new_state, encode_spec(new_spec), encode_state(new_state)
    )
    put(store, move, token=token)
    assert [e.at_ms for e in store.due(BUCKET, 9_000, 9)] == [5_000]
    assert store.spec(BUCKET, "t") == new_spec
    assert store.state(BUCKET, "t") == new_state


def test_what_is_deleted_is_gone_with_its_due_entry(store: TimerStore) -> None:
    token = put(store, added("t", 1_000))
    put(store, TaskChange("t", *waiting(1_000), None, None, None, None), token=token)
    assert store.due(BUCKET, 9_000, 9) == []
    assert store.spec(BUCKET, "t") is store.state(BUCKET, "t") is None


def test_a_past_owner_is_refused(store: TimerStore) -> None:
    old = store.acquire(BUCKET)
    store.acquire(BUCKET)
    with pytest.raises(StoreRefused, match="token"):
        store.apply(BUCKET, old, 0, [added("t", 1)], META)
    assert store.state(BUCKET, "t") is None


def test_a_decision_on_another_state_is_refused(store: TimerStore) -> None:
    token = put(store, added("t", 1))
    with pytest.raises(StoreRefused, match="decided on offset 0, the store is at 1"):
        store.apply(BUCKET, token, 0, [added("u", 1)], META)
    assert store.state(BUCKET, "u") is None


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with TimerStore(tmp_path / "store") as first:
        put(first, added("t", 1_000))
    with TimerStore(tmp_path / "store") as again:
        assert again.next_due_ms(BUCKET) == 1_000
        assert again.meta(BUCKET) == META
        assert [task_id for task_id, _ in again.tasks(BUCKET)] == ["t"]


class TestRestore:
    def test_halves_of_a_change_are_not_due(self, store: TimerStore) -> None:
        spec, state = waiting(1_000)
        token = store.acquire(BUCKET)
        store.restore(BUCKET, token, 0, {"t": {"spec": encode_spec(spec)}}, META)
        assert store.next_due_ms(BUCKET) is None
        store.restore(BUCKET, token, 1, {"t": {"state": encode_state(state)}}, META._replace(next_offset=2))
        assert store.next_due_ms(BUCKET) == 1_000

    def test_differing_revs_are_not_due(self, store: TimerStore) -> None:
        (spec, _), (_, state) = waiting(1_000, rev=1), waiting(2_000, rev=2)
        token = store.acquire(BUCKET)
        values = {"t": {"spec": encode_spec(spec), "state": encode_state(state)}}
        store.restore(BUCKET, token, 0, values, META)
        assert store.next_due_ms(BUCKET) is None

    def test_a_tombstone_takes_the_due_entry_away(self, store: TimerStore) -> None:
        token = put(store, added("t", 1_000))
        store.restore(BUCKET, token, 1, {"t": {"spec": None, "state": None}}, META._replace(next_offset=2))
        assert store.next_due_ms(BUCKET) is None

    def test_a_forgotten_bucket_is_empty_and_its_neighbours_are_not(self, store: TimerStore) -> None:
        token = put(store, added("t", 1_000))
        other = store.acquire(BUCKET + 1)
        store.apply(BUCKET + 1, other, 0, [added("u", 2_000)], META)
        store.forget_bucket(BUCKET, token)
        assert store.meta(BUCKET) is None
        assert store.next_due_ms(BUCKET) is None
        assert store.next_due_ms(BUCKET + 1) == 2_000


def test_a_stub_waits_to_be_forgotten() -> None:
    stub = TaskState(Rev(1, 0), NEVER, 5, (), Outcome.SUCCEEDED, 10, (), forget_ms=99)
    assert due_entries("t", None, stub) == (DueEntry(99, DueKind.FORGET, "t", NEVER),)
    assert due_entries("t", None, stub._replace(forget_ms=NEVER)) == ()


@pytest.mark.parametrize("task_id", ["t", "ä" * 100, "{room-7}x", "a\u2028b"])
@pytest.mark.parametrize("occurrence", [NEVER, 0, 2**62])
def test_a_due_key_is_read_back_as_it_was_made(task_id: str, occurrence: int) -> None:
    entry = DueEntry(2**40, DueKind.FORGET, task_id, occurrence)
    assert due_entry(due_key(65_534, entry)) == entry


def test_a_broken_store_says_so_instead_of_looking_empty(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with TimerStore(path) as store:
        put(store, *(added(f"t{n}", n) for n in range(1_000)))
    (path / "CURRENT").write_bytes(b"rubbish\n")
    with pytest.raises(StoreCorrupted):
        TimerStore(path)
    TimerStore.wipe(path)
    with TimerStore(path) as store:
        assert store.next_due_ms(BUCKET) is None


def test_a_corrupt_block_is_told_from_other_failures(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with TimerStore(path) as store:
        put(store, *(added(f"t{n}", n) for n in range(20_000)))
        store.flush()
    largest = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    for at in range(1_000, len(data) - 5_000, 500):
        data[at] ^= 0xFF
    largest.write_bytes(data)
    with TimerStore(path) as store, pytest.raises(StoreCorrupted):
        _read_everything(store)


def _read_everything(store: TimerStore) -> None:
    store.due(BUCKET, 2**60, 10**6)
    for task_id, _ in store.tasks(BUCKET):
        store.spec(BUCKET, task_id)


def marked(task_id: str, at_ms: int, extras: Extras) -> TaskChange:
    """A new task with something that few have."""
    change = added(task_id, at_ms)
    assert change.new_state is not None
    state = change.new_state._replace(extras=extras)
    return change._replace(new_state=state, state_bytes=encode_state(state))


def test_what_waits_at_a_gate_is_in_no_due_index_and_leaves_in_order(store: TimerStore) -> None:
    mail = Extras(held="q:mail")
    held = marked("b", 200, mail)
    token = put(store, held, marked("a", 300, mail), marked("c", 100, Extras(held="k:x")))
    assert store.due(BUCKET, 1_000, 10) == []
    assert [entry.task_id for entry in store.held(BUCKET, "q:mail", 10)] == ["b", "a"]
    assert [entry.task_id for entry in store.held(BUCKET, "q:mail", 1)] == ["b"]
    assert store.gates(BUCKET) == ["k:x", "q:mail"]

    free = added("b", 200)
    put(store, free._replace(old_spec=held.new_spec, old_state=held.new_state), token=token)
    assert [entry.task_id for entry in store.held(BUCKET, "q:mail", 10)] == ["a"]
    assert [entry.task_id for entry in store.due(BUCKET, 1_000, 10)] == ["b"]


def test_nothing_of_a_faulted_or_paused_task_is_due(store: TimerStore) -> None:
    faulted = marked("faulted", 100, Extras(faulted="KeyError: 'x'"))
    put(store, faulted, marked("paused", 100, Extras(paused=True, held="q:mail")))
    assert store.due(BUCKET, 1_000, 10) == []
    assert store.gates(BUCKET) == []


def test_what_is_set_for_a_queue_is_kept_by_writing_and_by_restoring(store: TimerStore) -> None:
    mail, everything = QueueState("mail", True, QueueLimits(max_running=3)), QueueState("", True)
    token = store.acquire(BUCKET)
    store.apply(BUCKET, token, 0, [], META, {"mail": encode_queue(mail)})
    store.restore(BUCKET, token, META.next_offset, {}, META, {"": encode_queue(everything)})
    assert store.queues(BUCKET) == {"mail": mail, "": everything}
    assert store.queues(BUCKET + 1) == {}


def test_a_store_that_is_open_elsewhere_is_no_broken_one(tmp_path: Path) -> None:
    with TimerStore(tmp_path / "store"), pytest.raises(StoreFailed, match="lock"):
        TimerStore(tmp_path / "store")
    with TimerStore(tmp_path / "store"):
        pass
