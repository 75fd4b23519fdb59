"""Whatever happens to tasks, the due index is what follows from them; restored or written alike."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tickstream.codec import SPEC, STATE, decode_spec, decode_state, decode_work, split_timers_key
from tickstream.dispatcher.ports import OutRecord
from tickstream.testing import Harness
from tickstream.timer_store import BucketMeta, TimerStore, due_entries
from tickstream.worker import App, Context

app = App()


@app.handler("noop")
def noop(ctx: Context) -> None:
    if ctx.occurrence_ts % 3 == 0:
        raise ValueError("every third fails")


TASKS = st.sampled_from(["a", "b", "{c}d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), TASKS, st.integers(-5, 40)),
        st.tuples(st.just("cancel"), TASKS, st.just(0)),
        st.tuples(st.just("advance"), st.just(""), st.integers(0, 5_000)),
        st.tuples(st.just("work"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


def _play(steps: list[tuple[str, str, int]]) -> Harness:
    tick = Harness()
    for verb, task_id, number in steps:
        match verb:
            case "schedule":
                tick.client.schedule(task_id, run_at=tick.now + timedelta(seconds=number), call=noop.bind())
            case "cancel":
                tick.client.cancel(task_id)
            case "advance":
                tick.advance(timedelta(seconds=number))
            case "work":
                tick.worker(app).run_all()
    return tick


def _timers(tick: Harness) -> list[OutRecord]:
    return [r for r in tick.log if r.topic == "test.timers" and (r.key or b"")[:1] in (SPEC, STATE)]


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 7))
def test_a_store_restored_in_any_stretches_has_the_due_index_of_its_tasks(
    steps: list[tuple[str, str, int]], stretch: int
) -> None:
    records = _timers(_play(steps))
    with tempfile.TemporaryDirectory() as directory, TimerStore(Path(directory) / "s") as store:
        for bucket in {r.partition for r in records}:
            own = [r for r in records if r.partition == bucket]
            token = store.acquire(bucket)
            for start in range(0, len(own), stretch):
                values: dict[str, dict[str, bytes | None]] = {}
                for record in own[start : start + stretch]:
                    kind, task_id = split_timers_key(record.key)
                    values.setdefault(task_id, {})["spec" if kind == SPEC else "state"] = record.value
                store.restore(bucket, token, start, values, BucketMeta(start + stretch, bytes(16), 0, b""))
            latest: dict[tuple[bytes, str], bytes | None] = {}
            for record in own:
                latest[split_timers_key(record.key)] = record.value
            expected = []
            for task_id in {task_id for _, task_id in latest}:
                spec, state = latest.get((SPEC, task_id)), latest.get((STATE, task_id))
                expected += due_entries(task_id, spec and decode_spec(spec), state and decode_state(state))
            assert sorted(store.due(bucket, 2**60, 1_000)) == sorted(expected)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_attempt_has_one_work_record_and_every_occurrence_one_outcome(
    steps: list[tuple[str, str, int]],
) -> None:
    tick = _play(steps)
    for _ in range(5):  # as many attempts as there can be
        tick.advance(timedelta(minutes=2))
        tick.worker(app).run_all()
    attempts = [(h.task_id, h.occurrence_ts, h.attempt) for h in tick.history if h.attempt]
    assert len(attempts) == len(set(attempts))
    ends = [(h.task_id, h.occurrence_ts) for h in tick.history if h.attempt and h.outcome.terminal]
    assert len(ends) == len(set(ends))
    work = [decode_work(r.value) for r in tick.log if r.topic == "test.work.default"]
    made = [(w.task_id, w.occurrence_ts, w.attempt) for w in work]
    assert len(made) == len(set(made))
    assert {(task_id, at) for task_id, at, _ in made} == set(ends)
    assert tick.work() == ()
