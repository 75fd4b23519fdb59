"""Changes to a calendar's events on a real broker: what was moved runs once, there, under its identity."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.kafka.rig import Rig
from tickstream.clock import moment_of
from tickstream.codec import decode_history, decode_work
from tickstream.ingest import Client
from tickstream.model import BoundCall, Outcome, VerdictKind

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
RING = BoundCall("ring", "default", b"")


@pytest.mark.timeout(120)
def test_what_is_moved_runs_once_there_and_what_is_called_off_does_not(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig, Client(rig.settings) as client:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        room = client.calendar("room-7", zone="Europe/Berlin", timeout=timedelta(seconds=60))
        far = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)

        # A daily series whose first two occurrences are moved to a moment from now, one ahead of the other.
        daily = {"duration": HOUR, "rrule": "FREQ=DAILY;COUNT=6", "handler": "meet", "payload": b""}
        added = room.add("daily", far, **daily, reminders=[2 * SECOND], remind=RING)  # type: ignore[arg-type]
        assert added.kind is VerdictKind.SCHEDULED
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
        day = timedelta(days=1)
        assert room.cancel("daily", far + 2 * day).kind is VerdictKind.REPLACED
        other = room.add("other", soon + 2 * HOUR, duration=HOUR)
        assert other.kind is VerdictKind.SCHEDULED
        refused = room.move("daily", far, soon + 2.5 * HOUR)
        assert refused.kind is VerdictKind.CONFLICT
        (met,) = refused.conflicts
        assert (met.with_uid, moment_of(met.occurrence_ts)) == ("other", far)
        assert met.end_ms - met.start_ms == 1_800_000
        short = timedelta(milliseconds=900)
        moved = [
            room.move("daily", far, soon + SECOND, duration=short),
            room.move("daily", far + day, soon, duration=short),
        ]
        assert [verdict.kind for verdict in moved] == [VerdictKind.REPLACED] * 2

        # A dry run leaves no trace but the position: the next one hears the same, the time stays free.
        candidate = room.event("x", far + 3 * day, duration=HOUR)
        for _ in range(2):
            dry = room.conflicts(candidate)
            assert (dry.kind, [c.with_uid for c in dry.conflicts]) == (VerdictKind.CONFLICT, ["daily"])
        free = room.event("x", far + 3 * day + 12 * HOUR, duration=HOUR)
        assert room.conflicts(free).kind is VerdictKind.CLEAR
        assert room.put(free).kind is VerdictKind.SCHEDULED

        # A split takes over from the third day on, and a new owner knows all of it.
        split = room.change(
            "daily",
            occurrence=far + 3 * day,
            and_following=True,
            start=far + 3 * day + 2 * HOUR,
            new_uid="late",
        )
        assert split.kind is VerdictKind.REPLACED
        first.kill()
        rig.wait_active(rig.dispatcher("second"))
        taken = [("late", far + 4 * day + 2 * HOUR), ("late", far + 5 * day + 2 * HOUR)]
        for uid, start in taken:
            dry = room.conflicts(room.event("y", start, duration=HOUR))
            assert [conflict.with_uid for conflict in dry.conflicts] == [uid]
        for start in (far, far + 2 * day, far + 4 * day):
            assert room.conflicts(room.event("y", start, duration=HOUR)).kind is VerdictKind.CLEAR

        # Recorded, with nothing to do for a worker.
        quiet = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=8)
        assert room.add("quiet", quiet).kind is VerdictKind.SCHEDULED

        reminder = "{room-7}daily~remind-2000"
        expected = {
            ("{room-7}daily", far): soon + SECOND,
            ("{room-7}daily", far + day): soon,
            (reminder, far): soon - SECOND,
            (reminder, far + day): soon - 2 * SECOND,
        }
        runs = [
            decode_work(value) for *_, value in rig.read(rig.names.work("default"), until=lambda n: n >= 4)
        ]
        found = {
            (work.task_id, moment_of(work.occurrence_ts)): moment_of(work.not_before_ms) for work in runs
        }
        assert found == expected
        assert all(work.decided_ms >= work.not_before_ms for work in runs)
        for work in runs:
            rig.report(work)
        rig.flush()

        history = [decode_history(value) for *_, value in rig.read(rig.names.history, until=lambda n: n >= 5)]
        outcomes = Counter((one.task_id, one.outcome, one.attempt) for one in history)
        assert outcomes == {
            ("{room-7}daily", Outcome.SUCCEEDED, 1): 2,
            (reminder, Outcome.SUCCEEDED, 1): 2,
            ("{room-7}quiet", Outcome.SUCCEEDED, 0): 1,
        }


@pytest.mark.timeout(120)
def test_the_command_line_changes_events_and_prints_what_they_meet(
    broker: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}", "--calendar=room-7")
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    with Rig(broker, prefix, tmp_path) as rig:
        rig.wait_active(rig.dispatcher("first"))
        added = cli(
            "calendar", "add", "standup", f"{day}T09:30:00", "--for=1h", "--rrule=FREQ=DAILY;COUNT=4", "--remind=10m", "--json"
        )  # fmt: skip
        assert (added.code, added.value["verdict"], added.value["conflicts"]) == (0, "scheduled", [])
        review = ("calendar", "add", "review", f"{day}T10:00:00", "--for=1h", "--dry-run")
        dry = cli(*review, "--json")
        assert (dry.code, dry.value["verdict"], dry.value["zone"]) == (1, "conflict", "UTC")
        (met,) = dry.value["conflicts"]
        assert (met["with_uid"], met["start_local"], met["end_local"], met["tentative"]) == (
            "standup",
            f"{day}T10:00:00",
            f"{day}T10:30:00",
            False,
        )
        assert "meets 'standup', its occurrence of" in cli(*review).out
        moved = cli("calendar", "move", "standup", f"{day}T09:30:00", f"{day}T12:00:00+00:00")
        assert (moved.code, moved.out) == (0, "standup: replaced\n")
        assert cli(*review).out == "review: clear\n"
        following = str(day + timedelta(days=2))
        split = cli(
            "calendar", "change", "standup", f"--occurrence={following}T09:30:00", "--and-following", f"--start={following}T08:00:00"
        )  # fmt: skip
        assert "split: 'standup_R" in split.out
        cancelled = cli("calendar", "cancel", "standup", f"{day + timedelta(days=1)}T09:30:00")
        assert (cancelled.code, cancelled.out) == (0, "standup: replaced\n")
        unknown = cli("calendar", "cancel", "standup", f"{day}T11:00:00")
        assert (unknown.code, "the start that the rule gives it" in unknown.out) == (1, True)
        assert cli("calendar", "move", "standup", "soon", "later").code == 2
        assert cli("calendar", "remove", "standup").code == 0
