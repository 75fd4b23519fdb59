"""Instants and durations as people type them."""

import pytest

from tickstream.errors import InvalidInput
from tickstream.ops.instants import parse_duration, parse_instant, parse_iso

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("30", 30_000),
        ("1.5m", 90_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", NOW),
        ("NOW+10s", NOW + 10_000),
        ("+1m", NOW + 60_000),
        ("now - 5m", NOW - 300_000),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T02:00:00+01:00", 3_600_000),
    ],
)
def test_instants(text: str, ms: int) -> None:
    assert parse_instant(text, NOW) == ms


def test_what_is_finer_than_a_millisecond_rounds_up() -> None:
    assert parse_iso("1970-01-01T00:00:00.000001Z") == 1
    assert parse_iso("1970-01-01T00:00:00.001000Z") == 1


@pytest.mark.parametrize("text", ["tomorrow", "now+", "now+5y", "", "12:00"])
def test_anything_else_is_an_error_that_shows_how_to_write_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="write"):
        parse_instant(text, NOW)


def test_a_time_without_a_zone_names_no_instant() -> None:
    with pytest.raises(InvalidInput, match="no time zone; write 2"):
        parse_instant("2026-12-24T18:00:00", NOW)
