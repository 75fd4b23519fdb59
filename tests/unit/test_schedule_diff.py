"""What is declared against what runs, as values: the lines of the difference, and the commands behind them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tickstream import Retry
from tickstream.codec import SPEC, STATE, decode_command, encode_command, encode_spec, encode_state
from tickstream.ingest.changelog import Fold, Standing
from tickstream.ingest.request import Requests, item_of, schedule_command
from tickstream.model import (
    NEVER,
    NO_EXTRAS,
    OWNER_LABEL,
    BoundCall,
    Command,
    IfExists,
    Outcome,
    RecentCommand,
    Rev,
    TaskSpec,
    TaskState,
    Verb,
    VerdictKind,
)
from tickstream.ops.instants import parse_duration
from tickstream.ops.schedules.apply import HeldByOthers, to_send
from tickstream.ops.schedules.definition import command_of, definition_of, duration, fields_of
from tickstream.ops.schedules.diff import Change, Fate, Line, OwnedOrDeclared, difference
from tickstream.worker.declared import Declaration, declaration

NOW = 1_796_000_000_000
CALL = BoundCall("report", "default", b'{"region":"eu"}')
REV = Rev(7, 0)


def declared(task_id: str = "a", **asked: Any) -> Declaration:
    words: dict[str, Any] = {"cron": "0 2 * * *", "zone": "Europe/Berlin", "call": CALL, **asked}
    return declaration(task_id, words, f"s.toml:{len(task_id)}", None)


def spec_of(command: Command, rev: Rev = REV) -> TaskSpec:
    return TaskSpec(rev, encode_command(command._replace(command_id=bytes(range(16)))))


def state(rev: Rev = REV, **changes: Any) -> TaskState:
    return TaskState(rev, NOW + 5, NEVER, (), None, NEVER, ())._replace(**changes)


def stands(one: Declaration, owner: str = "me", rev: Rev = REV) -> Standing:
    return Standing(spec_of(command_of(one, owner, Requests()), rev), state(rev))


def by_hand(task_id: str = "a", **changes: Any) -> Standing:
    item = item_of(task_id, cron="0 2 * * *", call=CALL)
    command = schedule_command(bytes(16), Requests().checked(*item))
    return Standing(spec_of(command._replace(options=command.options._replace(**changes))), state())


def one_line(one: Declaration, standing: Standing | None, now_ms: int = NOW) -> Line:
    (line,) = difference([one], {} if standing is None else {one.item.task_id: standing}, "me", now_ms)
    return line


def test_what_is_not_there_is_added_and_only_if_it_still_is_not() -> None:
    line = one_line(declared(), None)
    assert (line.fate, line.place, line.changes) == (Fate.ADDED, "s.toml:1", ())
    assert line.command is not None
    assert line.command.verb is Verb.SCHEDULE
    assert line.command.options.if_exists is IfExists.REJECT
    assert definition_of(line.command) == definition_of(command_of(declared(), "me", Requests()))


def test_what_is_the_same_is_unchanged_and_has_no_command() -> None:
    line = one_line(declared(), stands(declared()))
    assert (line.fate, line.command, line.detail) == (Fate.UNCHANGED, None, "")
    paused = stands(declared())._replace(state=state(extras=NO_EXTRAS._replace(paused=True)))
    assert one_line(declared(), paused).detail == "paused"


def test_how_a_command_travelled_is_no_difference() -> None:
    """A re-send, or the guards of an earlier application, are no part of what it defines."""
    command = command_of(declared(), "me", Requests())
    options = command.options._replace(
        not_after=3, if_rev=Rev(1, 0), if_exists=IfExists.REJECT, allow_past=True
    )
    line = one_line(declared(), Standing(spec_of(command._replace(options=options)), state()))
    assert line.fate is Fate.UNCHANGED


def test_a_change_is_told_field_by_field_and_replaces_only_what_was_looked_at() -> None:
    new = declared(zone="Europe/Paris", misfire="all", call=CALL._replace(payload=b'{"region":"us"}'))
    line = one_line(new, stands(declared()))
    assert line.fate is Fate.CHANGED
    assert line.changes == (
        Change("zone", "Europe/Berlin", "Europe/Paris"),
        Change("misfire", "latest", "all"),
        Change("payload", '{"region":"eu"}', '{"region":"us"}'),
    )
    assert line.command is not None
    assert (line.command.options.if_rev, line.command.options.if_exists) == (REV, IfExists.REPLACE)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"cron": "0 3 * * *"}, "cron"),
        ({"start": "2026-01-01"}, "start"),
        ({"end": "2030-01-01"}, "end"),
        ({"gap": "skip"}, "gap"),
        ({"fold": "both"}, "fold"),
        ({"subday": "wall"}, "subday"),
        ({"grace": timedelta(seconds=5)}, "grace"),
        ({"overlap": "allow"}, "overlap"),
        ({"jitter": timedelta(milliseconds=1)}, "jitter"),
        ({"queue": "slow"}, "queue"),
        ({"limit_key": "k"}, "limit_key"),
        ({"labels": {"team": ""}}, "label team"),
        ({"lease": timedelta(seconds=20)}, "lease"),
        ({"timeout": timedelta(seconds=20)}, "timeout"),
        ({"retry": Retry(attempts=2)}, "attempts"),
        ({"retry": Retry(backoff=timedelta(seconds=2))}, "backoff"),
        ({"retry": Retry(cap=timedelta(seconds=2))}, "backoff_cap"),
        ({"call": CALL._replace(handler="other")}, "handler"),
        ({"call": CALL._replace(version=2)}, "version"),
        ({"call": CALL._replace(payload=b"\xff")}, "payload"),
    ],
)
def test_every_word_is_a_field_of_the_difference(asked: dict[str, Any], field: str) -> None:
    line = one_line(declared(**asked), stands(declared()))
    assert [change.field for change in line.changes] == [field]
    back = one_line(declared(), stands(declared(**asked)))
    assert [change.field for change in back.changes] == [field]


def test_another_kind_of_rule_is_told_as_well() -> None:
    new = declared(cron=None, every=timedelta(minutes=90), zone=None)
    changed = {c.field: (c.old, c.new) for c in one_line(new, stands(declared())).changes}
    assert changed == {
        "every": ("", "90m"),
        "cron": ("0 2 * * *", ""),
        "zone": ("Europe/Berlin", "UTC"),
    }


def test_different_definitions_never_read_the_same() -> None:
    texts = ("", '""', '"', "x", "0xff")
    seen = [fields_of(definition_of(command_of(declared(labels={"l": t}), "me", Requests()))) for t in texts]
    payloads = (b"", b"0xff", b"\xff", b'"0xff"', b'""')
    calls = [declared(call=CALL._replace(payload=payload)) for payload in payloads]
    seen += [fields_of(definition_of(command_of(one, "me", Requests()))) for one in calls]
    assert all(a != b for n, a in enumerate(seen) for b in seen[:n])


@pytest.mark.parametrize("ms", [0, 1, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000])
def test_a_duration_is_written_as_it_is_read(ms: int) -> None:
    assert parse_duration(duration(ms)) == ms


def test_what_is_declared_no_more_is_cancelled_only_with_prune() -> None:
    lines = difference([declared("a")], {"a": stands(declared("a")), "b": stands(declared("b"))}, "me", NOW)
    assert [(line.task_id, line.fate) for line in lines] == [("a", Fate.UNCHANGED), ("b", Fate.UNDECLARED)]
    assert to_send(lines, prune=False) == []
    (gone,) = to_send(lines, prune=True)
    assert gone.command is not None
    assert (gone.command.verb, gone.command.task_id, gone.command.options.if_rev) == (Verb.CANCEL, "b", REV)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (stands(declared(), owner="you"), "it belongs to owner 'you'"),
        (by_hand(), "it was scheduled by hand"),
        (by_hand(event=b"x"), "it is a calendar's event"),
    ],
)
def test_an_id_of_others_stops_everything(held: Standing, says: str) -> None:
    lines = difference([declared("new"), declared("a")], {"a": held}, "me", NOW)
    assert [line.fate for line in lines] == [Fate.ADDED, Fate.HELD]
    with pytest.raises(HeldByOthers) as refused:
        to_send(lines, prune=True)
    assert f"s.toml:1: task 'a': {says}" in str(refused.value)
    assert "nothing was applied" in str(refused.value)


def test_a_declaration_with_nothing_to_come_is_not_sent() -> None:
    over = declared(start="2020-01-01", end="2020-01-03")
    line = one_line(over, None)
    assert (line.fate, line.command) == (Fate.ENDED, None)
    assert line.detail == "nothing of it is to come, the last was at 2020-01-02T01:00:00.000Z: take it out"
    # As it stands, unchanged; where another definition stands, that one is what is declared no more.
    assert one_line(over, stands(over)).fate is Fate.UNCHANGED
    assert one_line(over, stands(declared())).fate is Fate.UNDECLARED


def test_the_same_application_is_the_same_command_and_any_other_another() -> None:
    def command_id(line: Line) -> bytes:
        assert line.command is not None
        return line.command.command_id

    added = one_line(declared(), None)
    assert command_id(one_line(declared(), None)) == command_id(added)
    changed = one_line(declared(misfire="all"), stands(declared()))
    assert command_id(one_line(declared(misfire="all"), stands(declared()))) == command_id(changed)
    again = one_line(declared(misfire="all"), stands(declared(), rev=Rev(9, 0)))
    # It comes back after it was cancelled: the stub remembers the ids of its first life.
    ended = Standing(
        None,
        state(
            outcome=Outcome.CANCELLED,
            next_occurrence_ts=NEVER,
            recent=(RecentCommand(command_id(added), VerdictKind.SCHEDULED, ""),),
        ),
    )
    back = one_line(declared(), ended)
    assert back.fate is Fate.ADDED
    (other_owner,) = difference([declared()], {}, "you", NOW)
    ids = [command_id(line) for line in (added, changed, again, back, other_owner)]
    assert len(set(ids)) == len(ids)


def test_a_last_run_in_flight_does_not_keep_a_task_from_coming_back() -> None:
    line = one_line(declared(), Standing(None, state(next_occurrence_ts=NEVER)))
    assert line.fate is Fate.ADDED
    assert line.command is not None
    assert line.command.options.if_rev == REV


def test_of_the_changelog_only_what_is_owned_or_declared_is_kept() -> None:
    fold = Fold(OwnedOrDeclared("me", ["a"]))

    def add(task_id: str, standing: Standing) -> None:
        assert standing.spec is not None
        assert standing.state is not None
        fold.add(SPEC, task_id, encode_spec(standing.spec))
        fold.add(STATE, task_id, encode_state(standing.state))

    add("a", by_hand("a"))
    add("b", stands(declared("b")))
    add("c", stands(declared("c"), owner="me too"))
    add("d", stands(declared("d")))
    add("e", stands(declared("e")))
    assert set(fold.found()) == {"a", "b", "d", "e"}
    add("d", by_hand("d"))  # it was defined anew by somebody else
    fold.add(SPEC, "e", None)
    fold.add(SPEC, "a", None)
    found = fold.found()
    assert set(found) == {"a", "b"}
    assert found["a"].spec is None
    assert found["a"].state == state()
    assert found["b"].state is None
    spec = found["b"].spec
    assert spec is not None
    assert OWNER_LABEL.encode() in decode_command(spec.command).body
