"""Schedule files: what they may say, and what is said of what they may not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from examples.declared import app
from tests.cli import Cli
from tickstream import InvalidInput
from tickstream.ops.schedules.apply import declared_by
from tickstream.ops.schedules.document import document_of, read_document
from tickstream.ops.schedules.entries import read_entries

YAML = """
app: examples.declared:app
schedules:
  report:eu:
    handler: report
    args: {region: eu}
    cron: 0 2 * * *
    zone: Europe/Berlin
  rent:
    handler: collect
    rrule: FREQ=MONTHLY;BYDAY=-1FR
    start: 2027-01-29T17:00:00
    zone: Europe/Paris
    exdate: [2027-12-31T17:00:00]
    end: 2030-01-01T00:00:00+01:00
    attempts: 3
    backoff: 5s
"""


def complaints(entry: str, *, handlers: bool = True) -> str:
    """What is said of one TOML schedule."""
    document = document_of(f'[schedules."a"]\n{entry}', "s.toml", yaml_form=False)
    declared, wrong = read_entries(document, app if handlers else None)
    assert len(declared) + len(wrong) == 1
    return "\n".join(map(str, wrong))


def test_yaml_says_what_toml_says() -> None:
    document = document_of(YAML, "s.yaml", yaml_form=True)
    assert document.lines == {"report:eu": 4, "rent": 9}
    (report, rent), wrong = read_entries(document, app)
    assert wrong == []
    assert (report.place, rent.place) == ("s.yaml:4", "s.yaml:9")
    assert report.item.call == app.handlers["report"].bind("eu")
    recurrence = rent.item.recurrence
    assert recurrence is not None
    assert (recurrence.start, recurrence.exdate) == ("2027-01-29T17:00:00", ("2027-12-31T17:00:00",))
    assert recurrence.end_ms == 1_893_452_400_000
    assert rent.item.terms is not None
    # attempts and backoff from the file, the cap from the handler.
    assert (rent.item.terms.attempts, rent.item.terms.backoff_ms) == (3, 5_000)


def test_without_an_app_what_it_says_is_taken_as_it_stands() -> None:
    text = '[schedules.a]\nhandler = "anything"\nargs = {n = 1}\nevery = "90s"\nlease = "2m"\n'
    (one,), wrong = read_entries(document_of(text, "s.toml", yaml_form=False), None)
    assert wrong == []
    assert (one.item.handler, one.item.payload) == ("anything", b'{"n":1}')
    assert one.item.recurrence is not None
    assert one.item.recurrence.interval_ms == timedelta(seconds=90) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('handler = "report"\nargs = {region = "eu"}', "when? Give one of every, cron and rrule"),
        ('cron = "0 2 * * *"', "handler is missing"),
        (
            'handler = "reprot"\ncron = "0 2 * * *"',
            "there is no handler 'reprot' in the app; it has: collect, poll, report",
        ),
        ('handler = "report"\ncron = "0 2 * * *"', "missing a required argument: 'region'"),
        ('handler = "collect"\ncron = "0 25 * * *"', "cron '0 25 * * *'"),
        (
            'handler = "collect"\ncron = "0 2 * * *"\nzone = "Berlin"',
            "zone 'Berlin' is not in the tz database",
        ),
        ('handler = "collect"\nevery = 90', "every is 90; write a duration in quotes"),
        ('handler = "collect"\nevery = "soon"', "every is 'soon'; write a duration in quotes"),
        ('handler = "collect"\nevery = "1h"\ncron = "0 2 * * *"', "one of every=, cron= and rrule="),
        (
            'handler = "collect"\nevery = "1h"\nmisfre = "skip"',
            "unknown key 'misfre'; did you mean 'misfire'?",
        ),
        ('handler = "collect"\nevery = "1h"\nmisfire = "no"', "misfire='no': is one of latest, all, skip"),
        ('handler = "collect"\nrrule = "FREQ=MONTHLY"', "needs start="),
        ('handler = "collect"\nrrule = "FREQ=MONTHLY;BYDAY=6XX"\nstart = 2027-01-01', "BYDAY"),
        ('handler = "collect"\nevery = "1h"\nattempts = 0', "Retry(attempts=0)"),
        ('handler = "collect"\nevery = "1h"\nattempts = "3"', "attempts is '3'; it is a whole number"),
        ('handler = "collect"\nevery = "1h"\nlabels = {a = 1}', "labels is {'a': 1}; it has texts by name"),
        ('handler = "collect"\nevery = "1h"\npayload = "{}"', "takes arguments: give args"),
        ('handler = "collect"\nevery = "1h"\nstart = 5', "start is 5; write 2027-03-01T09:00:00"),
        ('handler = "report"\nargs = {region = 2027-01-01}\nevery = "1h"', "cannot be written as JSON"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_to_do(entry: str, says: str) -> None:
    said = complaints(entry)
    assert said.startswith("s.toml:1: task 'a': ")
    assert says in said


@pytest.mark.parametrize(
    ("text", "yaml_form", "says"),
    [
        ("[schedules.a]\ncron=1\n[schedules.a]\n", False, "at line 3"),
        (
            "schedules:\n  a: {every: 1h}\n  b: {}\n  a: {every: 2h}\n",
            True,
            "s:4: 'a' stands on line 2 already",
        ),
        ("schedules:\n  a: [\n", True, "line 3"),
        ("", False, "there are no schedules"),
        ("", True, "this is a NoneType"),
        ("[schedule.a]\n", False, "unknown key 'schedule'"),
        ("app = 3\n[schedules.a]\n", False, "app is 3"),
        ("[schedules]\na = 3\n", False, "schedules.a is 3"),
        ("schedules: {1: {every: 1h}}\n", True, "an id is text"),
    ],
)
def test_what_is_no_schedule_file_is_said_to_be_none(text: str, yaml_form: bool, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        document_of(text, "s", yaml_form=yaml_form)
    assert says in str(refused.value)


def test_a_file_that_is_not_there_or_has_another_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="it cannot be read"):
        read_document(tmp_path / "none.toml")
    other = tmp_path / "schedules.json"
    other.write_text("{}")
    with pytest.raises(InvalidInput, match=r"ends in \.toml, \.yaml, \.yml"):
        declared_by(str(other))


def test_the_command_names_every_mistake_and_asks_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, "--bootstrap=127.0.0.1:1")
    file = tmp_path / "s.toml"
    file.write_text('[schedules.a]\nhandler = "x"\n\n[schedules.b]\nhandler = "x"\nevery = "1ms"\n')
    ran = cli("schedule", "apply", str(file), "--owner", "reports")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"error: {file}: 2 mistakes, nothing was applied",
        f"  {file}:1: task 'a': when? Give one of every, cron and rrule",
        f"  {file}:4: task 'b': every 1: the interval is at least 1000 ms",
    ]
    no_owner = cli("schedule", "apply", str(file), "--owner", " ")
    assert (no_owner.code, "owner ' '" in no_owner.err) == (2, True)
    no_module = cli("schedule", "apply", "examples.nothing:app", "--owner", "reports")
    assert (no_module.code, "no module 'examples.nothing'" in no_module.err) == (2, True)
