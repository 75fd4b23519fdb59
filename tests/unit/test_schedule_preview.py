"""`tickstream schedule preview`: what is shown, and what is refused; no broker anywhere."""

from __future__ import annotations

import pytest

from tests.cli import Cli


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def preview(cli: Cli, *arguments: str) -> list[str]:
    ran = cli("schedule", "preview", *arguments)
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


SPRING = ("--zone", "America/New_York", "--around", "2027-03-14", "-n", "3")
AUTUMN = ("--zone", "America/New_York", "--around", "2027-11-07", "-n", "3")
SHIFTED = "02:30 does not exist, the clock jumps from 02:00 to 03:00: read by the offset in force before (gap=shift)"


def test_a_gap_is_flagged_with_what_becomes_of_it(cli: Cli) -> None:
    assert preview(cli, "30 2 * * *", *SPRING) == [
        "Sat 2027-03-13 02:30:00-05:00  2027-03-13T07:30:00Z",
        f"Sun 2027-03-14 03:30:00-04:00  2027-03-14T07:30:00Z  {SHIFTED}",
        "Mon 2027-03-15 02:30:00-04:00  2027-03-15T06:30:00Z",
    ]
    assert (
        "taken at the end of the gap (gap=next_valid)"
        in preview(cli, "30 2 * * *", *SPRING, "--gap", "next_valid")[1]
    )


def test_what_a_gap_takes_out_is_shown_as_skipped_and_not_counted(cli: Cli) -> None:
    lines = preview(cli, "30 2 * * *", *SPRING, "--gap", "skip")
    assert [line.split()[1] for line in lines] == ["2027-03-13", "2027-03-14", "2027-03-15", "2027-03-16"]
    assert "skipped" in lines[1]
    assert lines[1].endswith("(gap=skip)")


def test_a_fold_is_flagged_with_which_of_the_two_it_is(cli: Cli) -> None:
    assert preview(cli, "30 1 * * *", *AUTUMN)[1].endswith(
        "01:30 comes twice: occurs the first time only (fold=first)"
    )
    both = preview(cli, "30 1 * * *", *AUTUMN, "--fold", "both")
    assert [line.split("  ")[1] for line in both[1:]] == ["2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z"]
    assert both[2].endswith("01:30 comes twice, this is the second (fold=both)")


def test_rules_and_intervals_are_previewed_alike(cli: Cli) -> None:
    rule = ("--rrule", "FREQ=MONTHLY;BYDAY=-1FR", "--start", "2027-01-29T17:00:00", "--zone", "Europe/Paris")
    assert preview(cli, *rule, "--around", "2027-01-01", "-n", "2") == [
        "Fri 2027-01-29 17:00:00+01:00  2027-01-29T16:00:00Z",
        "Fri 2027-02-26 17:00:00+01:00  2027-02-26T16:00:00Z",
    ]
    assert preview(cli, "--every", "12h", "--around", "2027-01-02", "-n", "2") == [
        "Fri 2027-01-01 00:00:00+00:00  2027-01-01T00:00:00Z",
        "Fri 2027-01-01 12:00:00+00:00  2027-01-01T12:00:00Z",
    ]


def test_for_machines_it_is_one_object_with_the_data_it_rests_on(cli: Cli) -> None:
    ran = cli("schedule", "preview", "30 2 * * *", *SPRING, "--json")
    assert ran.value["tzdata"] >= "2026a"
    assert ran.value["occurrences"][1] == {
        "nominal": "2027-03-14T02:30:00",
        "local": "2027-03-14T03:30:00-04:00",
        "utc": "2027-03-14T07:30:00Z",
        "change": "gap",
        "note": SHIFTED,
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("61 * * * *",), "bad minute"),
        (("0 2 * *",), "five fields"),
        (("0 2 * * *", "--zone", "Mars/Base"), "not in the tz database"),
        (("--rrule", "FREQ=DAILY"), "needs --start"),
        (("--rrule", "FREQ=DAILY;BYHOUR=24", "--start", "2027-01-01T00:00:00"), "BYHOUR '24'"),
        (
            ("--rrule", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "--start", "2027-01-01T00:00:00"),
            "never occurs",
        ),
        (("0 2 * * *", "--every", "5m"), "one of"),
        ((), "one of"),
        (("0 2 * * *", "--exdate", "2027-01-01T02:00:00"), "go with --rrule"),
        (("0 2 * * *", "--around", "soon"), "no date"),
        (("0 2 * * *", "--around", "2027-01-01T00:00:00Z"), "has an offset"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(cli: Cli, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = cli("schedule", "preview", *arguments)
    assert (code, out) == (2, "")
    assert reason in err
