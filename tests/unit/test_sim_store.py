"""The simulator's store in memory held against the real one: the same calls, the same answers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tickstream.codec import encode_command, encode_spec, encode_state
from tickstream.errors import StoreRefused
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    NO_EXTRAS,
    Command,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
)
from tickstream.testing.sim.store import Disk, MemoryStore
from tickstream.timer_store import BucketMeta, TaskChange, TimerStore

BUCKETS = (0, 1)
TASKS = ("a", "b", "{x}y", "zß")


def spec_of(dice: random.Random) -> TaskSpec | None:
    if dice.random() < 0.3:
        return None
    rev = Rev(dice.randrange(4), 0)
    return TaskSpec(
        rev, encode_command(Command(bytes(16), Verb.SCHEDULE, "a", 5, "default", DEFAULT_OPTIONS, b""))
    )


def state_of(dice: random.Random, spec: TaskSpec | None) -> TaskState | None:
    if dice.random() < 0.2:
        return None
    rev = spec.rev if spec is not None and dice.random() < 0.8 else Rev(dice.randrange(4), 0)
    runs = tuple(
        RunState(n, 1, rev, 7, dice.choice((b"", b"h" * 16)), retry_at_ms=dice.choice((NEVER, 40)))
        for n in range(dice.randrange(3))
    )
    return TaskState(
        rev, dice.choice((NEVER, dice.randrange(90))), NEVER, runs, None, NEVER, (), dice.choice((NEVER, 60)),
        NO_EXTRAS._replace(held=dice.choice(("", "", "gate", "other")), paused=dice.random() < 0.2),
    )  # fmt: skip


def told(store: TimerStore) -> list[object]:
    """Everything that a store can be asked."""
    return [
        (
            store.due(b, 1_000, 100),
            store.due(b, 50, 2, since_ms=20),
            store.next_due_ms(b, since_ms=30),
            [(store.spec(b, t), store.state(b, t)) for t in TASKS],
            sorted(store.in_flight(b), key=lambda found: found[0]),
            sorted(store.tasks(b), key=lambda found: found[0]),
            {gate: store.held(b, gate, 3) for gate in sorted(store.gates(b))},
            store.queues(b),
            store.meta(b),
        )
        for b in BUCKETS
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_calls_have_the_same_answers(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    memory = MemoryStore(Disk())
    with TimerStore(tmp_path / "store") as real:
        stores: tuple[TimerStore, TimerStore] = (memory, real)
        tokens = {b: {s.acquire(b) for s in stores}.pop() for b in BUCKETS}
        offsets = dict.fromkeys(BUCKETS, 0)
        for step in range(1, 40):
            bucket, task_id = dice.choice(BUCKETS), dice.choice(TASKS)
            spec = spec_of(dice)
            state = state_of(dice, spec)
            spec_bytes = None if spec is None else encode_spec(spec)
            state_bytes = None if state is None else encode_state(state)
            meta = BucketMeta(step, b"t" * 16, step, b"")
            luck = dice.random()
            for store in stores:
                if luck < 0.05:
                    store.forget_bucket(bucket, tokens[bucket])
                elif luck < 0.5:
                    values = {"spec": spec_bytes, "state": state_bytes}
                    store.restore(bucket, tokens[bucket], offsets[bucket], {task_id: values}, meta)
                else:
                    old = store.spec(bucket, task_id), store.state(bucket, task_id)
                    change = TaskChange(task_id, *old, spec, state, spec_bytes, state_bytes)
                    store.apply(bucket, tokens[bucket], offsets[bucket], [change], meta)
            offsets[bucket] = 0 if luck < 0.05 else step
            assert told(memory) == told(real)


def test_an_old_token_and_an_old_offset_are_refused() -> None:
    store = MemoryStore(Disk())
    old = store.acquire(0)
    new = store.acquire(0)
    meta = BucketMeta(1, b"t" * 16, 0, b"")
    with pytest.raises(StoreRefused):
        store.apply(0, old, 0, [], meta)
    store.apply(0, new, 0, [], meta)
    with pytest.raises(StoreRefused):
        store.apply(0, new, 0, [], meta)


def test_a_disk_outlives_its_process() -> None:
    disk = Disk()
    store = MemoryStore(disk)
    store.apply(0, store.acquire(0), 0, [], BucketMeta(4, b"t" * 16, 0, b"p"))
    heir = MemoryStore(disk)
    assert heir.meta(0) == store.meta(0)
    heir.acquire(0)
    with pytest.raises(StoreRefused):
        heir.drop_due(0, 7, [])
