"""Gates and standing tasks, told as stories on the harness: pauses, limits, one at a time per key."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tickstream import App
from tickstream.codec import encode_body
from tickstream.errors import InvalidInput, QueueRefused
from tickstream.ingest.request import queue_command, task_command
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    Options,
    Outcome,
    Phase,
    Rev,
    RunTerms,
    Verb,
    VerdictKind,
)
from tickstream.testing import Harness

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def in_one_bucket(tick: Harness, count: int, limit_key: str = "") -> list[str]:
    """Tasks of one bucket, all due in a second."""
    ids = [f"{{b}}{n}" for n in range(count)]
    for task_id in ids:
        schedule(tick, task_id, Options(limit_key=limit_key) if limit_key else DEFAULT_OPTIONS)
    return ids


def schedule(tick: Harness, task_id: str, options: Options) -> None:
    when = tick.clock.wall_ms() + 1_000
    body = encode_body(Body("h", b"", {}, {}))
    tick.send(Command(tick.new_id(), Verb.SCHEDULE, task_id, when, "default", options, body))


def dispatched(tick: Harness) -> list[str]:
    return [work.task_id for work in tick.work()]


def finish(tick: Harness) -> str:
    """The first dispatched run succeeds; the id of its task."""
    run = tick.worker(App()).take()
    run.succeed()
    tick.tick()
    return run.work.task_id


# --------------------------------------------------------------------------- queues


def test_a_paused_queue_holds_what_falls_due_and_lets_it_go_in_order(tick: Harness) -> None:
    ids = in_one_bucket(tick, 3)
    tick.client.queues.pause("default")
    tick.advance(MINUTE)
    assert dispatched(tick) == []
    assert tick.phase(ids[0]) is Phase.HELD
    tick.client.queues.resume("default")
    assert dispatched(tick) == ids


def test_a_pause_of_everything_holds_every_queue(tick: Harness) -> None:
    (task_id,) = in_one_bucket(tick, 1)
    tick.client.queues.pause()
    tick.advance(MINUTE)
    tick.client.queues.resume("default")
    assert dispatched(tick) == []
    tick.client.queues.resume()
    assert dispatched(tick) == [task_id]


def test_what_is_held_can_be_cancelled_and_replaced(tick: Harness) -> None:
    first, second = in_one_bucket(tick, 2)
    tick.client.queues.pause("default")
    tick.advance(MINUTE)
    assert tick.client.cancel(first).kind is VerdictKind.CANCELLED
    replaced = tick.client.schedule(second, run_at=tick.now + MINUTE, payload=b"", handler="h")
    assert replaced.kind is VerdictKind.REPLACED
    tick.client.queues.resume("default")
    assert dispatched(tick) == []
    tick.advance(MINUTE)
    assert dispatched(tick) == [second]


def test_a_queue_runs_no_more_at_once_than_its_limit(tick: Harness) -> None:
    tick.client.queues.limit("default", running=2)
    ids = in_one_bucket(tick, 5)
    tick.advance(2 * SECOND)
    assert dispatched(tick) == ids[:2]
    assert finish(tick) == ids[0]
    assert dispatched(tick) == ids[1:3]


def test_a_place_is_kept_through_retries_and_left_at_the_end(tick: Harness) -> None:
    tick.client.queues.limit("default", running=1)
    first, second = in_one_bucket(tick, 2)
    tick.advance(2 * SECOND)
    tick.worker(App()).claim().fail(retry_ms=30_000)
    tick.advance(10 * SECOND)
    assert dispatched(tick) == []
    tick.advance(30 * SECOND)
    assert dispatched(tick) == [first]
    tick.worker(App()).claim().succeed()
    tick.tick()
    assert dispatched(tick) == [second]


def test_a_queue_starts_no_more_in_a_span_than_its_limit(tick: Harness) -> None:
    tick.client.queues.limit("default", starts=2, per=10 * SECOND)
    in_one_bucket(tick, 8)
    started = []
    for _ in range(8):
        tick.advance(5 * SECOND)
        started.append(len(dispatched(tick)))
    assert started == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_limit_taken_away_lets_everything_go(tick: Harness) -> None:
    tick.client.queues.limit("default", running=1)
    ids = in_one_bucket(tick, 4)
    tick.advance(2 * SECOND)
    tick.client.queues.limit("default")
    assert dispatched(tick) == ids


@pytest.mark.parametrize("limits", [{"running": 0}, {"starts": -1}, {"running": 2.5}, {"per": timedelta(0)}])
def test_limits_that_are_none_are_refused_before_anything_is_sent(
    tick: Harness, limits: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match="|".join(limits)):
        tick.client.queues.limit("default", **limits)  # type: ignore[arg-type]


def test_a_queue_that_does_not_exist_is_refused_with_those_that_do(tick: Harness) -> None:
    with pytest.raises(QueueRefused, match=r"'nowhere' does not exist; there are: default"):
        tick.client.queues.pause("nowhere")


# --------------------------------------------------------------------------- one at a time per key


def test_of_tasks_with_one_limit_key_one_is_in_flight_at_a_time(tick: Harness) -> None:
    ids = in_one_bucket(tick, 3, limit_key="account-7")
    tick.advance(2 * SECOND)
    assert dispatched(tick) == ids[:1]
    assert [finish(tick) for _ in ids] == ids
    assert tick.phase(ids[2]) is Phase.SUCCEEDED


def test_who_waits_for_a_limit_key_goes_before_what_falls_due_as_it_opens(tick: Harness) -> None:
    first, second = in_one_bucket(tick, 2, limit_key="k")
    tick.advance(SECOND)
    run = tick.worker(App()).take()
    third = "{b}third"
    schedule(tick, third, Options(limit_key="k"))
    tick.clock.advance(1_000)  # due as the first one ends, and seen before what leaves the gate
    run.succeed()
    tick.tick()
    assert (run.work.task_id, dispatched(tick)) == (first, [second])
    assert [finish(tick) for _ in range(2)] == [second, third]
    # Nobody waits any more: who comes now goes at once.
    fourth = "{b}fourth"
    schedule(tick, fourth, Options(limit_key="k"))
    tick.advance(SECOND)
    assert dispatched(tick) == [fourth]


def test_recurring_tasks_wait_for_a_limit_key_in_their_turn(tick: Harness) -> None:
    for n in range(3):
        tick.client.schedule(
            f"{{b}}{n}", every=MINUTE, start=tick.now + SECOND, payload=b"", handler="h", limit_key="k"
        )
    tick.advance(SECOND)
    assert dispatched(tick) == ["{b}0"]
    assert [finish(tick) for _ in range(3)] == ["{b}0", "{b}1", "{b}2"]
    assert dispatched(tick) == []


def test_a_limit_key_is_an_argument_of_schedule_and_checked(tick: Harness) -> None:
    for n in range(2):
        tick.client.schedule(f"{{b}}{n}", run_at=tick.now, payload=b"", handler="h", limit_key="account-7")
    assert dispatched(tick) == ["{b}0"]
    with pytest.raises(InvalidInput, match="limit_key='a\\\\n'"):
        tick.client.schedule("t", run_at=tick.now, payload=b"", handler="h", limit_key="a\n")


def test_a_place_is_left_by_a_lease_that_expires_for_good(tick: Harness) -> None:
    first, second = (f"{{b}}{n}" for n in range(2))
    for task_id in (first, second):
        schedule(tick, task_id, Options(limit_key="k", terms=RunTerms(attempts=1)))
    tick.advance(2 * SECOND)
    tick.worker(App()).claim()
    tick.advance(MINUTE)
    assert [(h.task_id, h.outcome) for h in tick.history] == [(first, Outcome.DEAD)]
    assert dispatched(tick) == [second]


# --------------------------------------------------------------------------- standing tasks


def test_a_paused_task_waits_and_runs_at_once_when_it_is_resumed(tick: Harness) -> None:
    (task_id,) = in_one_bucket(tick, 1)
    assert tick.client.pause(task_id).kind is VerdictKind.PAUSED
    assert tick.phase(task_id) is Phase.PAUSED
    tick.advance(MINUTE)
    assert dispatched(tick) == []
    assert tick.client.resume(task_id).kind is VerdictKind.RESUMED
    assert dispatched(tick) == [task_id]


def test_a_trigger_runs_beside_what_is_scheduled(tick: Harness) -> None:
    task_id = "{b}t"
    tick.client.schedule(task_id, run_at=tick.now + MINUTE, payload=b"p", handler="h")
    answer = tick.client.trigger(task_id)
    assert answer.kind is VerdictKind.TRIGGERED
    (work,) = tick.work()
    assert work.occurrence_ts == answer.occurrence_ts == tick.clock.wall_ms()
    again = tick.client.trigger(task_id)
    assert again.occurrence_ts == answer.occurrence_ts + 1
    tick.advance(MINUTE)
    assert len(tick.work()) == 3


def test_a_trigger_is_held_by_nothing_and_counts(tick: Harness) -> None:
    tick.client.queues.limit("default", running=1)
    first, second = in_one_bucket(tick, 2)
    tick.client.queues.pause("default")
    assert tick.client.trigger(first).kind is VerdictKind.TRIGGERED
    assert dispatched(tick) == [first]
    tick.client.queues.resume("default")
    tick.advance(2 * SECOND)
    assert dispatched(tick) == [first]
    finish(tick)
    assert dispatched(tick) == [first]
    finish(tick)
    assert dispatched(tick) == [second]


def test_a_task_is_rescheduled_with_its_payload(tick: Harness) -> None:
    (task_id,) = in_one_bucket(tick, 1)
    answer = tick.client.reschedule(task_id, run_at=tick.now + MINUTE)
    assert (answer.kind, answer.occurrence_ts) == (VerdictKind.REPLACED, tick.clock.wall_ms() + 60_000)
    tick.advance(30 * SECOND)
    assert dispatched(tick) == []
    tick.advance(MINUTE)
    assert dispatched(tick) == [task_id]


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
def test_of_a_task_that_is_not_there_or_over_the_answer_says_so(tick: Harness, verb: str) -> None:
    assert getattr(tick.client, verb)("{b}none").kind is VerdictKind.UNKNOWN
    (task_id,) = in_one_bucket(tick, 1)
    tick.advance(2 * SECOND)
    finish(tick)
    answer = getattr(tick.client, verb)(task_id)
    assert (answer.kind, answer.phase) == (VerdictKind.TOO_LATE, "succeeded")


def test_a_re_sent_trigger_runs_once(tick: Harness) -> None:
    (task_id,) = in_one_bucket(tick, 1)
    command = task_command(b"t" * 16, Verb.TRIGGER, task_id)
    first, second = tick.send(command), tick.send(command)
    assert (first.kind, second.kind) == (VerdictKind.TRIGGERED, VerdictKind.TRIGGERED)
    assert len(tick.work()) == 1


def test_a_guard_on_the_definition_refuses_another(tick: Harness) -> None:
    (task_id,) = in_one_bucket(tick, 1)
    wrong = task_command(b"c" * 16, Verb.CANCEL, task_id)._replace(options=Options(if_rev=Rev(99, 0)))
    answer = tick.send(wrong)
    assert answer.kind is VerdictKind.REJECTED
    assert "99:0" in answer.detail
    right = wrong._replace(command_id=b"d" * 16, options=Options(if_rev=Rev(0, 0)))
    assert tick.send(right).kind is VerdictKind.CANCELLED


def test_nothing_is_set_twice_by_a_re_send(tick: Harness) -> None:
    command = queue_command(b"q" * 16, Verb.PAUSE_QUEUE, "default")
    tick.send_everywhere(command)
    tick.client.queues.resume("default")
    verdicts = tick.send_everywhere(command)
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.PAUSED}
    (task_id,) = in_one_bucket(tick, 1)
    tick.advance(2 * SECOND)
    assert dispatched(tick) == [task_id]
    assert verdicts[0].occurrence_ts == NEVER
