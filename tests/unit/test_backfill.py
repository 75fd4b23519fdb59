"""What a backfill makes of each occurrence of a past window, as values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickstream import Context, InvalidInput, recurring
from tickstream.clock import ceil_ms
from tickstream.codec import decode_command, encode_command
from tickstream.errors import UnknownTask
from tickstream.ingest.backfill import (
    Fate,
    Known,
    Names,
    Window,
    known_of,
    look,
    occurrences_in,
)
from tickstream.ingest.changelog import Standing
from tickstream.ingest.request import Item, Requests, item_of, schedule_command
from tickstream.model import (
    AGAIN_LABEL,
    BACKFILL_LABEL,
    NEVER,
    NO_EXTRAS,
    OWNER_LABEL,
    BoundCall,
    History,
    Outcome,
    Rev,
    RunState,
    RunTerms,
    TaskSpec,
    TaskState,
    bucket_of,
)

HOUR = 3_600_000
NOON = ceil_ms(datetime(2027, 3, 10, 12, tzinfo=UTC))
REV = Rev(1, 0)
CALL = BoundCall("report", "slow", b"{}", RunTerms(attempts=2), version=3)


def state(**changes: Any) -> TaskState:
    return TaskState(REV, NOON + HOUR, NOON, (), None, NEVER, ())._replace(**changes)


def ended(task_id: str, occurrence_ts: int, outcome: Outcome) -> History:
    return History(
        1, task_id, occurrence_ts, 1, REV, outcome, NOON, "slow", "report", "w", b"", *[NEVER] * 4, "", b""
    )


class FakeChangelog:
    """One task with its backfills, as a changelog would tell of them."""

    def __init__(self, tasks: dict[str, Standing], past: list[History]) -> None:
        self._tasks = tasks
        self._past = past

    def tasks(self, wanted: Any, buckets: Any) -> dict[str, Standing]:
        return {
            task_id: Standing(stands.spec if wanted.spec(task_id, b"") else None, stands.state)
            for task_id, stands in self._tasks.items()
            if wanted.state(task_id)
        }

    def history(self, bucket: int, since_ms: int, wanted: Any) -> Any:
        return (entry for entry in self._past if wanted(entry.task_id))


def spec(task_id: str = "hourly", **asked: Any) -> TaskSpec:
    words: dict[str, Any] = {"every": timedelta(hours=1), "call": CALL, **asked}
    checked = Requests().checked(*item_of(task_id, **words))
    return TaskSpec(REV, encode_command(schedule_command(bytes(16), checked)))


def backfill(
    hours: int,
    *,
    others: dict[str, TaskState] | None = None,
    past: list[History] | None = None,
    stands: TaskState | None = None,
    again: bool = False,
    **asked: Any,
) -> list[tuple[int, Fate, Item | None]]:
    """(hour before noon, fate, task) of the last hours before noon."""
    tasks = {"hourly": Standing(spec(**asked), state() if stands is None else stands)}
    tasks |= {task_id: Standing(None, other) for task_id, other in (others or {}).items()}
    window = Window(NOON - hours * HOUR, NOON, 100)
    found = look(FakeChangelog(tasks, past or []), "hourly", 0, window, again)
    return [((NOON - one.occurrence_ts) // HOUR, one.fate, one.item) for one in found]


def fates(hours: int, **asked: Any) -> dict[int, Fate]:
    return {hour: fate for hour, fate, _ in backfill(hours, **asked)}


def test_each_occurrence_is_a_task_of_its_own_on_the_terms_of_the_recurring_one() -> None:
    (first, fate, item), *_ = backfill(2, labels={"team": "a", OWNER_LABEL: "me"})
    assert (first, fate) == (2, Fate.RUN)
    assert item is not None
    assert item.task_id == "{hourly}@2027-03-10T10:00:00Z"
    assert (item.run_at_ts, item.allow_past, item.if_exists) == (NOON - 2 * HOUR, True, "reject")
    assert item.call == CALL._replace(terms=CALL.terms)
    # Not the owner's, or pruning would cancel it.
    assert item.labels == {"team": "a", BACKFILL_LABEL: "hourly"}
    assert bucket_of(item.task_id, 64) == bucket_of("hourly", 64)
    command = schedule_command(bytes(16), Requests().checked(*item))
    assert decode_command(encode_command(command)).when == NOON - 2 * HOUR


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({}, "backfill:hourly"),
        ({"overlap": "allow"}, ""),
        ({"limit_key": "meter", "overlap": "allow"}, "meter"),
    ],
)
def test_one_after_another_unless_they_may_overlap(asked: dict[str, Any], key: str) -> None:
    assert [item.limit_key for _, _, item in backfill(2, **asked) if item is not None] == [key, key]


def test_what_succeeded_is_left_out_whoever_ran_it() -> None:
    past = [
        ended("hourly", NOON - 3 * HOUR, Outcome.SUCCEEDED),
        ended("hourly", NOON - 2 * HOUR, Outcome.DEAD),
        ended("{hourly}@2027-03-10T11:00:00Z", NOON - HOUR, Outcome.SUCCEEDED),
        ended("hourlyx", NOON - 4 * HOUR, Outcome.SUCCEEDED),
    ]
    assert fates(4, past=past) == {4: Fate.RUN, 3: Fate.RAN, 2: Fate.RUN, 1: Fate.RAN}
    again = backfill(4, past=past, again=True)
    assert [fate for _, fate, _ in again] == [Fate.RUN] * 4
    (repeated,) = [item for hour, _, item in again if hour == 1]
    assert repeated is not None
    assert repeated.task_id == "{hourly}@2027-03-10T11:00:00Z/2"
    assert repeated.labels == {AGAIN_LABEL: "hourly"}


def test_what_waits_or_runs_is_left_out_again_or_not() -> None:
    run = RunState(NOON - 3 * HOUR, 1, REV, NOON)
    stands = state(
        next_occurrence_ts=NOON - HOUR, runs=(run,), extras=NO_EXTRAS._replace(queued=(NOON - 2 * HOUR,))
    )
    others = {"{hourly}@2027-03-10T08:00:00Z": state(next_occurrence_ts=NOON - 4 * HOUR)}
    expected = {5: Fate.RUN, 4: Fate.IN_FLIGHT, 3: Fate.IN_FLIGHT, 2: Fate.IN_FLIGHT, 1: Fate.TO_COME}
    assert fates(5, stands=stands, others=others) == expected
    assert fates(5, stands=stands, others=others, again=True) == expected


def test_a_backfill_that_failed_is_followed_by_another_under_the_same_key() -> None:
    dead = state(next_occurrence_ts=NEVER, outcome=Outcome.DEAD, last_occurrence_ts=NOON - HOUR)
    ((_, fate, item),) = backfill(1, others={"{hourly}@2027-03-10T11:00:00Z": dead})
    assert fate is Fate.RUN
    assert item is not None
    assert (item.task_id, item.labels) == ("{hourly}@2027-03-10T11:00:00Z/2", {BACKFILL_LABEL: "hourly"})


def test_the_key_of_a_run_is_that_of_the_occurrence_it_stands_for() -> None:
    own = Context("hourly", NOON)
    made_up = Context("{hourly}@2027-03-10T12:00:00Z", NOON, labels={BACKFILL_LABEL: "hourly"})
    again = Context("{hourly}@2027-03-10T12:00:00Z/2", NOON, labels={AGAIN_LABEL: "hourly"})
    assert made_up.idempotency_key == own.idempotency_key
    assert again.idempotency_key == f"{again.task_id}@{NOON}"
    # What follows from it is the same task, too, so it is not there twice.
    assert made_up.schedule("mail", CALL).task_id == own.schedule("mail", CALL).task_id


@pytest.mark.parametrize("task_id", ["hourly", "{room}1", "a{b}c", "{x", "x{}y", "ä"])
def test_names_lie_in_the_task_s_bucket_and_can_be_read_again(task_id: str) -> None:
    if task_id == "x{}y":
        with pytest.raises(InvalidInput, match="braces"):
            Names(task_id)
        return
    names = Names(task_id)
    for number in (1, 2, 17):
        name = names.of(NOON + 5, number)
        assert names.read(name) == (NOON + 5, number)
        assert bucket_of(name, 65_535) == bucket_of(task_id, 65_535)
    assert names.read(task_id) is None
    assert names.read(names.of(NOON, 1) + "/x") is None


def test_names_of_two_tasks_are_never_the_same() -> None:
    assert Names("a").of(NOON, 1) != Names("{a}").of(NOON, 1)
    with pytest.raises(InvalidInput, match="too long"):
        Names("x" * 250).of(NOON, 1)


def test_a_window_lies_in_the_past_and_is_bounded() -> None:
    noon = datetime(2027, 3, 10, 12, tzinfo=UTC)
    hour = timedelta(hours=1)
    assert Window.of(noon - hour, noon, NOON, 5) == Window(NOON - HOUR, NOON, 5)
    for start, end, most, says in (
        (noon, noon, 5, "the window is empty"),
        (noon, noon + hour, 5, "in the future"),
        (noon - hour, noon, 0, "most=0"),
        (noon - hour, noon, 10_001, "most=10001"),
        (noon.replace(tzinfo=None), noon, 5, "start"),
    ):
        with pytest.raises(InvalidInput, match=says):
            Window.of(start, end, NOON, most)
    with pytest.raises(
        InvalidInput, match="more than 3 occurrences lie in the window, the last of those at 2027"
    ):
        occurrences_in(recurring(every=hour), None, Window(NOON - 4 * HOUR, NOON, 3))
    assert len(occurrences_in(recurring(every=hour), None, Window(NOON - 4 * HOUR, NOON, 4))) == 4


def test_occurrences_are_those_of_the_rule_on_the_zone_s_clock() -> None:
    """Over a change of clocks: a gap that takes one out is no occurrence."""
    window = Window(
        ceil_ms(datetime(2027, 3, 27, tzinfo=UTC)), ceil_ms(datetime(2027, 3, 30, tzinfo=UTC)), 10
    )
    rule = recurring(cron="30 2 * * *", zone="Europe/Berlin", gap="skip")
    assert [(local, utc) for _, local, utc in occurrences_in(rule, None, window)] == [
        ("2027-03-27T02:30:00+01:00", "2027-03-27T01:30:00Z"),
        ("2027-03-29T02:30:00+02:00", "2027-03-29T00:30:00Z"),
    ]
    assert occurrences_in(rule, None, Window(window.start_ms, window.start_ms + 1, 10)) == ()


def test_what_does_not_recur_cannot_be_backfilled() -> None:
    window = Window(NOON - HOUR, NOON, 5)
    once = Requests().checked(*item_of("hourly", run_at_ts=NOON + HOUR, call=CALL))
    standing = Standing(TaskSpec(REV, encode_command(schedule_command(bytes(16), once))), state())
    with pytest.raises(InvalidInput, match="runs once"):
        look(FakeChangelog({"hourly": standing}, []), "hourly", 0, window, False)
    for tasks in ({}, {"hourly": Standing(None, state())}):
        with pytest.raises(UnknownTask, match="there is no task 'hourly'"):
            look(FakeChangelog(tasks, []), "hourly", 0, window, False)


def test_what_is_known_is_read_from_states_and_history() -> None:
    names = Names("hourly")
    known = known_of(state(), {names.of(NOON, 3): Standing(None, state())}, [], names)
    assert known == Known(state(), frozenset(), {NOON: 3}, frozenset({NOON}))
