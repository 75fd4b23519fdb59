"""Any moves, cancellations and changes of a series, as time passes: what runs, when, and what is taken, by a plain model.

`TICKSTREAM_CHANGES=2000` makes the long run; without it a short one.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tickstream.calendar import Event, Length, Override, Reminder, Status, expand, meeting
from tickstream.calendar.turns import Turn, Turns
from tickstream.clock import moment_of
from tickstream.ingest.calendar import Calendar
from tickstream.model import BoundCall, Outcome, VerdictKind, bucket_of
from tickstream.testing import Harness
from tickstream.testing.harness import BUCKETS

STORIES: Final = int(os.environ.get("TICKSTREAM_CHANGES", "60"))
HOUR: Final = timedelta(hours=1)
DAYS: Final = 8
"""Occurrences of the series, one a day at 9:00."""
LEAD: Final = 2
"""Hours between a reminder and its occurrence."""
PING: Final = BoundCall("ping", "default", b"")

NAMED: Final = st.integers(0, DAYS - 1)
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 40), st.just(0)),
        st.tuples(st.just("move"), NAMED, st.integers(-30, 24 * (DAYS + 2))),
        st.tuples(st.sampled_from(["cancel", "restore"]), NAMED, st.just(0)),
        st.tuples(st.sampled_from(["rename", "put"]), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=16,
)


class Model:
    """A series of eight occurrences, in hours since its first midnight: where each is, and what became of it."""

    def __init__(self) -> None:
        self.at = {24 * day + 9: 24 * day + 9 for day in range(DAYS)}
        self.cancelled: set[int] = set()
        self.ran: dict[int, int] = {}
        self.skipped: set[int] = set()
        self.gone: set[int] = set()
        """Taken back when their time had passed: they have no turn, and none was missed."""

    def over(self, identity: int) -> bool:
        return identity in self.ran or identity in self.skipped or identity in self.gone

    def pass_time(self, now: int) -> None:
        for identity, at in self.at.items():
            if at <= now and not self.over(identity) and identity not in self.cancelled:
                self.ran[identity] = at

    def put(self, identity: int, at: int, cancelled: bool, now: int) -> None:
        """An occurrence that had no turn yet is to be there, or nowhere."""
        was_to_come = identity not in self.cancelled
        self.at[identity] = at
        if cancelled:
            self.cancelled.add(identity)
            return
        self.cancelled.discard(identity)
        if at < now:
            (self.skipped if was_to_come else self.gone).add(identity)


class Story:
    """The model beside the harness."""

    def __init__(self) -> None:
        self.tick = Harness()
        self.room: Calendar = self.tick.client.calendar("room-7", zone="Europe/Berlin")
        self.midnight: datetime = self.tick.now.replace(hour=0, minute=0, second=0, microsecond=0) + 24 * HOUR
        self.model = Model()
        self.sequence = 0
        self.reminded: set[tuple[int, int]] = set()
        """Identity and instant of reminders that some definition asked for."""
        assert self.add() is VerdictKind.SCHEDULED

    @property
    def now(self) -> int:
        return (self.tick.now - self.midnight) // HOUR

    def add(self) -> VerdictKind:
        self.sequence += 1_000
        return self.room.add(
            "daily",
            self.midnight + 9 * HOUR,
            duration=HOUR,
            rrule=f"FREQ=DAILY;COUNT={DAYS}",
            sequence=self.sequence,
            on_conflict="allow",
            handler="meet",
            payload=b"",
            reminders=[LEAD * HOUR],
            remind=PING,
        ).kind

    def step(self, what: str, number: int, hour: int) -> None:
        model, identity = self.model, 24 * number + 9
        named = self.midnight + identity * HOUR
        self.reminded |= {(i, at - LEAD) for i, at in model.at.items() if i not in model.cancelled}
        if what == "advance":
            self.tick.advance(number * HOUR)
        elif what == "rename":
            assert self.room.change("daily", summary="other").kind is VerdictKind.REPLACED
        elif what == "put":
            kind = self.add()
            if kind is VerdictKind.REJECTED:
                assert all(model.over(i) or at < self.now for i, at in zip(model.at, model.at, strict=True))
                return
            for one in model.at:
                if model.over(one):
                    model.at[one] = one  # its time is taken there, and it does not run again
                else:
                    model.put(one, one, cancelled=False, now=self.now)
        else:
            if what == "move":
                verdict = self.room.move("daily", named, self.midnight + hour * HOUR, on_conflict="allow")
                to, cancelled = hour, identity in model.cancelled
            else:
                to, cancelled = model.at[identity], what == "cancel"
                status = "cancelled" if cancelled else "confirmed"
                verdict = self.room.change("daily", occurrence=named, status=status, on_conflict="allow")
            if model.over(identity):
                assert verdict.kind is VerdictKind.TOO_LATE
                return
            assert verdict.kind is VerdictKind.REPLACED
            model.put(identity, to, cancelled, self.now)
        model.pass_time(self.now)
        self.reminded |= {(i, at - LEAD) for i, at in model.at.items() if i not in model.cancelled}

    def hours(self, ms: int) -> int:
        return (moment_of(ms) - self.midnight) // HOUR

    def check(self) -> None:
        """What ran and what is taken is what the model says."""
        work = [w for w in self.tick.work() if w.task_id == "{room-7}daily"]
        ran = [(self.hours(w.occurrence_ts), self.hours(w.decided_ms)) for w in work]
        assert len(ran) == len(dict(ran))
        assert dict(ran) == self.model.ran
        skipped = [self.hours(h.occurrence_ts) for h in self.tick.history if h.outcome is Outcome.SKIPPED
                   and h.task_id == "{room-7}daily"]  # fmt: skip
        assert sorted(skipped) == sorted(self.model.skipped)
        bucket = bucket_of("{room-7}daily", BUCKETS)
        taken = meeting(self.tick._timers.occupancy(bucket, "room-7"), 0, 10**15)
        assert {(self.hours(b.recurrence_ms), self.hours(b.start_ms)) for b in taken} == {
            (identity, at) for identity, at in self.model.at.items() if identity not in self.model.cancelled
        }
        for reminder in (w for w in self.tick.work() if w.task_id != "{room-7}daily"):
            assert (self.hours(reminder.occurrence_ts), self.hours(reminder.decided_ms)) in self.reminded


@given(STEPS)
@settings(max_examples=STORIES, deadline=None)
def test_each_occurrence_has_one_turn_where_it_stands_then(steps: list[tuple[str, int, int]]) -> None:
    story = Story()
    for step in steps:
        story.step(*step)
    story.check()
    story.step("advance", 24 * 13, 0)
    story.check()


# --------------------------------------------------------------------------- the order of turns

HOURS: Final = st.integers(-50, 24 * 20)
CHANGED: Final = st.dictionaries(
    st.integers(0, 13),
    st.tuples(
        HOURS, st.booleans(), st.sampled_from([None, (), (Reminder(-3_600_000),), (Reminder(0, True),)])
    ),
    max_size=6,
)
REMINDERS: Final = st.none() | st.builds(
    Reminder, st.integers(-40, 40).map(lambda hours: hours * 3_600_000), st.booleans()
)


@given(CHANGED, st.sets(st.integers(0, 13), max_size=3), REMINDERS, st.integers(0, 3), st.integers(0, 30))
@settings(max_examples=STORIES * 3, deadline=None)
def test_turns_come_in_order_each_once(
    changed: dict[int, tuple[int, bool, tuple[Reminder, ...] | None]],
    excluded: set[int],
    reminder: Reminder | None,
    days: int,
    hours: int,
) -> None:
    begin = datetime(2026, 3, 20, 9, tzinfo=UTC)

    def utc(hour: int) -> str:
        return f"{begin + hour * HOUR:%Y-%m-%dT%H:%M:%SZ}"

    event = Event(
        "u",
        "2026-03-20T10:00:00",
        "Europe/Berlin",  # which changes its clock on the 29th
        Length(days, hours * 3_600_000),
        "FREQ=DAILY;COUNT=14",
        exdate=tuple(utc(24 * day - (day > 8)) for day in excluded),
        overrides=tuple(
            Override(
                utc(24 * day - (day > 8)),
                utc(hour),
                status=Status.CANCELLED if cancelled else None,
                reminders=reminders,
            )
            for day, (hour, cancelled, reminders) in changed.items()
        ),
        reminders=(Reminder(-3_600_000), *([] if reminder is None else [reminder])),
    )
    expansion = expand(event, None)
    expected = []
    for one in expansion.starting(-(10**15)):
        own = (
            event.reminders
            if one.override is None or one.override.reminders is None
            else one.override.reminders
        )
        if one.cancelled or (reminder is not None and reminder not in own):
            continue
        since = one.end_ms if reminder is not None and reminder.from_end else one.start_ms
        expected.append(Turn(since + (0 if reminder is None else reminder.offset_ms), one.recurrence_ms))
    turns = Turns(expansion, reminder)
    found, turn = [], turns.after(-(10**15))
    while turn is not None:
        found.append(turn)
        assert turns.of(turn.recurrence_ms) == turn
        turn = turns.after(*turn)
    assert found == sorted(expected)
