"""Recurring tasks that code declares: checked where they stand."""

from datetime import timedelta
from pathlib import Path

import pytest

from examples.declared import app as declared_app
from tickstream import App, Context, InvalidInput
from tickstream.ingest.request import Requests
from tickstream.model import BoundCall
from tickstream.ops.schedules.apply import declared_by
from tickstream.ops.schedules.definition import command_of, definition_of

FILE = Path(__file__).parents[2] / "examples" / "schedules.toml"


@pytest.fixture
def app() -> App:
    made = App()

    @made.handler()
    def report(ctx: Context, region: str) -> None: ...

    return made


def bound(app: App, region: str = "eu") -> BoundCall:
    return app.handlers["report"].bind(region)


def test_the_example_file_and_the_example_code_declare_the_same() -> None:
    by_file = {d.item.task_id: d for d in declared_by(str(FILE))}
    assert list(by_file) == list(declared_app.declarations) == ["report:eu", "report:us", "poll:7", "rent"]
    for task_id, declared in declared_app.declarations.items():
        in_code, in_file = (command_of(d, "x", Requests()) for d in (declared, by_file[task_id]))
        assert definition_of(in_code) == definition_of(in_file)
    assert by_file["rent"].place == f"{FILE}:27"
    assert declared_app.declarations["poll:7"].place.endswith("declared.py:33")


def test_a_declaration_takes_the_words_of_schedule(app: App) -> None:
    app.every(
        "poll",
        timedelta(minutes=5),
        call=bound(app),
        zone="Asia/Kolkata",
        misfire="all",
        grace=timedelta(seconds=5),
        overlap="queue",
        jitter=timedelta(seconds=2),
        queue="slow",
        labels={"team": "a"},
        limit_key="meter",
        lease=timedelta(seconds=30),
    )
    item = app.declarations["poll"].item
    assert item.recurrence is not None
    assert (item.recurrence.interval_ms, item.recurrence.zone, item.queue) == (
        300_000,
        "Asia/Kolkata",
        "slow",
    )
    assert item.terms is not None
    assert item.terms.lease_ms == 30_000


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"zone": "Europe/Berln"}, "zone 'Europe/Berln' is not in the tz database"),
        ({"misfire": "never"}, "misfire='never': is one of latest, all, skip"),
        ({"labels": {"tickstream.owner": "me"}}, "label 'tickstream.owner' is tickstream's own"),
        ({"limit_key": "\n"}, "limit_key"),
        ({"grace": 5}, "grace"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(app: App, asked: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.cron("nightly", "0 2 * * *", call=bound(app), **asked)  # type: ignore[arg-type]
    assert f"{__file__}:" in str(refused.value)
    assert "task 'nightly': " in str(refused.value)
    assert says in str(refused.value)
    assert app.declarations == {}


def test_a_rule_that_never_occurs_an_id_declared_twice_and_a_foreign_handler_are_refused(app: App) -> None:
    with pytest.raises(InvalidInput, match="never occurs"):
        app.rrule("leap", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", start="2027-01-01", call=bound(app))
    app.cron("nightly", "0 2 * * *", call=bound(app))
    with pytest.raises(InvalidInput, match=r"'nightly' is declared already, at .*py:"):
        app.every("nightly", timedelta(hours=1), call=bound(app))
    with pytest.raises(InvalidInput, match="there is no handler 'report' in this App"):
        App().cron("nightly", "0 2 * * *", call=bound(app))
    with pytest.raises(InvalidInput, match="rrule"):
        app.rrule("rent", "FREQ=MONTHLY", call=bound(app))


def test_an_every_without_a_start_is_on_the_hour(app: App) -> None:
    app.every("hourly", timedelta(hours=1), call=bound(app))
    recurrence = app.declarations["hourly"].item.recurrence
    assert recurrence is not None
    assert recurrence.start_ms == 0
