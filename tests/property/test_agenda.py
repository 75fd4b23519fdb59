"""Whatever was put into a calendar, changed and removed, in whatever order: a window finds exactly what expanding all finds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tickstream.calendar import Event, Length, Override
from tickstream.calendar.listing import occurrences_in
from tickstream.calendar.stored import Booking, OnConflict, encode_booking
from tickstream.projection import agenda
from tickstream.projection.families import Family
from tickstream.projection.rows import BookingChange

ZONE = "Europe/Berlin"
FIRST = datetime(2026, 3, 1)
LENGTHS = [0, 1, 15, 60, 61, 240, 241, 1_440, 1_441, 11_520, 92_160, 92_161, 737_280, 800_000]
"""Minutes: at and beyond the bounds of the classes."""


class Memory:
    """An index in a dict: what `take_in` writes to, and what is read of it."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Family, bytes], bytes] = {}

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        self.rows[family, key] = value

    def delete(self, family: Family, key: bytes) -> None:
        self.rows.pop((family, key), None)

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self.rows.get((family, key))

    def scan(self, family: Family, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = sorted(key for of, key in self.rows if of == family and start <= key < end)
        return ((key, self.rows[family, key]) for key in found)


def _minute(minutes: int) -> str:
    return f"{FIRST + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S}"


@st.composite
def events(draw: st.DrawFn, uid: str) -> Event:
    start = draw(st.integers(0, 90 * 1_440))
    if draw(st.booleans()):
        start, length = start // 1_440 * 1_440, Length(days=draw(st.sampled_from([0, 1, 3, 40])))
        return Event(uid, _minute(start)[:10], None, length)
    length = Length(ms=draw(st.sampled_from(LENGTHS)) * 60_000)
    rule = draw(st.sampled_from([None, None, None, "FREQ=WEEKLY", "FREQ=DAILY;COUNT=3"]))
    moved = draw(st.integers(-40 * 1_440, 40 * 1_440)) if draw(st.booleans()) else None
    overrides = () if moved is None else (Override(_minute(start), _minute(start + moved)),)
    return Event(uid, _minute(start), ZONE, length, rule, overrides=overrides)


changes = st.sampled_from(["a", "b", "c", "d", "e"]).flatmap(
    lambda uid: st.tuples(st.just(uid), st.one_of(st.none(), events(uid), events(uid), events(uid)))
)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(changes, min_size=1, max_size=12),
    windows=st.lists(
        st.tuples(st.integers(-30, 120), st.sampled_from([0, 1, 7, 42])), min_size=3, max_size=6
    ),
)
def test_a_window_finds_what_expanding_all_finds(
    steps: list[tuple[str, Event | None]], windows: list[tuple[int, int]]
) -> None:
    index, known = Memory(), cast(dict[str, Booking], {})
    for offset, (uid, event) in enumerate(steps):
        booking = None if event is None else Booking("room-7", ZONE, OnConflict.ALLOW, event)
        value = b"" if booking is None else encode_booking(booking)
        agenda.take_in(
            cast(Any, index), index.get, {f"{{room-7}}{uid}": BookingChange(value, offset, offset)}
        )
        if booking is None:
            known.pop(uid, None)
        else:
            known[uid] = booking
    record = agenda.calendar(cast(Any, index), "room-7")
    assert (0 if record is None else record.events) == len(known)
    assert {kept.booking for _, kept in agenda.events(cast(Any, index), "room-7")} == set(known.values())
    for day, days in windows:
        start = int((FIRST + timedelta(days=day)).timestamp()) * 1_000
        end = start + days * 86_400_000
        found = occurrences_in(agenda.bookings_in(cast(Any, index), "room-7", start, end), start, end)
        assert found == occurrences_in(known.values(), start, end)
