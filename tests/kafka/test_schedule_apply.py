"""Declared schedules on a real broker: applied, changed, pruned, left to their owners."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Cli
from tests.kafka.rig import Rig
from tickstream import Client
from tickstream.errors import NotApplied
from tickstream.ingest.changelog import KafkaChangelog
from tickstream.model import Verdict, VerdictKind
from tickstream.ops.schedules.apply import declared_by, look, send, to_send
from tickstream.ops.schedules.diff import OwnedOrDeclared

FAST = '[schedules."fast"]\nhandler = "noop"\nevery = "1s"\noverlap = "allow"\n'
NIGHTLY = '[schedules."nightly"]\nhandler = "noop"\ncron = "0 2 * * *"\nzone = "Europe/Berlin"\n'
BEAT = '[schedules."beat"]\nhandler = "noop"\nevery = "1s"\noverlap = "allow"\n'


def accepted(rig: Rig) -> int:
    """Messages on `commands`."""
    ends = rig.admin.ends([(rig.names.commands, bucket) for bucket in range(rig.buckets)])
    return sum(ends.values())


def fates(ran: dict[str, Any]) -> dict[str, str]:
    return {task["task_id"]: task["fate"] for task in ran["tasks"]}


def fires(rig: Rig, task_id: str) -> int:
    """How often a task was dispatched so far."""
    return sum(work.task_id == task_id for work in rig.work(at_least=1))


def until_fired(rig: Rig, task_id: str, times: int) -> None:
    """Until a task was dispatched so often."""
    fired: list[bytes] = []
    for _, _, key, _ in rig.read(rig.names.work("default"), until=lambda _: len(fired) >= times):
        if key == task_id.encode():
            fired.append(key)


def test_what_runs_follows_what_is_declared(
    broker: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}")
    file, other = tmp_path / "s.toml", tmp_path / "other.toml"

    def apply(*options: str, source: Path = file, owner: str = "me") -> dict[str, Any]:
        ran = cli("schedule", "apply", str(source), f"--owner={owner}", "--json", *options)
        assert ran.code == 0, ran.err
        return ran.value

    with Rig(broker, prefix, tmp_path) as rig, Client(rig.settings) as client:
        rig.wait_active(rig.dispatcher("only"))
        file.write_text(FAST + NIGHTLY)

        dry = apply("--dry-run")
        assert (dry["sent"], fates(dry)) == (0, {"fast": "added", "nightly": "added"})
        assert accepted(rig) == 0
        first = apply()
        assert [v["verdict"] for v in first["verdicts"]] == ["SCHEDULED", "SCHEDULED"]
        assert accepted(rig) == 2
        rig.work(at_least=2)

        again = apply("--prune")
        assert (again["sent"], fates(again)) == (0, {"fast": "unchanged", "nightly": "unchanged"})
        assert accepted(rig) == 2

        # Another owner has a task of its own; what is not its own it may not touch.
        other.write_text(BEAT)
        assert apply("--prune", source=other, owner="you")["sent"] == 1
        other.write_text(BEAT + NIGHTLY)
        foreign = cli("schedule", "apply", str(other), "--owner=you")
        assert foreign.code == 1
        assert f"{other}:5: task 'nightly': it belongs to owner 'me'" in foreign.err
        assert accepted(rig) == 3
        client.schedule("hand", every=timedelta(hours=1), payload=b"", wait=timedelta(seconds=20))
        other.write_text(BEAT + '[schedules."hand"]\nhandler = "noop"\nevery = "2h"\n')
        by_hand = cli("schedule", "apply", str(other), "--owner=you", "--json")
        assert (by_hand.code, "it was scheduled by hand" in by_hand.err) == (1, True)
        assert fates(by_hand.value) == {"beat": "unchanged", "hand": "held"}
        assert accepted(rig) == 4

        # Only the payload changes: the task goes on where it stands.
        file.write_text(FAST + NIGHTLY + "args = { n = 1 }\n")
        text = cli("schedule", "apply", str(file), "--owner=me", "--dry-run")
        assert text.out.splitlines()[:3] == ["= fast", "~ nightly", '    payload: (not said) -> {"n":1}']
        changed = apply()
        (verdict,) = changed["verdicts"]
        assert verdict["verdict"] == "REPLACED"
        assert verdict["occurrence_ts"] == first["verdicts"][1]["occurrence_ts"]

        # Gone from the file, it goes on until it is pruned.
        file.write_text(NIGHTLY)
        left = apply()
        assert (left["sent"], fates(left)["fast"]) == (1, "no longer declared")
        pruned = apply("--prune")
        (verdict,) = pruned["verdicts"]
        assert (verdict["task_id"], verdict["verdict"]) == ("fast", "CANCELLED")
        before = fires(rig, "fast")
        # Three more beats of the other owner's, and no more of this one.
        until_fired(rig, "beat", fires(rig, "beat") + 3)
        assert fires(rig, "fast") == before
        assert fates(apply("--prune")) == {"nightly": "unchanged"}

        # Back in the file, it runs again: its state, with runs that nobody ended, remembers its first life.
        file.write_text(FAST + NIGHTLY)
        back = apply()
        assert [v["verdict"] for v in back["verdicts"]] == ["REPLACED"]
        until_fired(rig, "fast", before + 1)


def test_two_applications_at_once_are_one(broker: str, prefix: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(NIGHTLY)
    declared = declared_by(str(file))
    with Rig(broker, prefix, tmp_path) as rig, Client(rig.settings) as one, Client(rig.settings) as two:
        rig.wait_active(rig.dispatcher("only"))
        looks = [look(client, declared, "me", str(file), 0) for client in (one, two)]
        answers = [
            applied.answer
            for client, lines in zip((one, two), looks, strict=True)
            for applied in send(client, to_send(lines, prune=True), timedelta(seconds=20))
        ]
        assert [a.kind for a in answers if isinstance(a, Verdict)] == [VerdictKind.SCHEDULED] * 2
        # A definition that somebody changed since the look is left alone.
        file.write_text(NIGHTLY + 'misfire = "all"\n')
        stale = look(one, declared_by(str(file)), "me", str(file), 0)
        two.schedule("nightly", every=timedelta(hours=1), payload=b"", wait=timedelta(seconds=20))
        (refused,) = send(one, to_send(stale, prune=True), timedelta(seconds=20))
        assert isinstance(refused.answer, Verdict)
        assert refused.answer.kind is VerdictKind.REJECTED


def test_without_a_dispatcher_nobody_claims_to_know(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        changelog = KafkaChangelog(rig.settings, "test", rig.admin, quiet_s=1.0)
        wanted = OwnedOrDeclared("me", ())
        assert changelog.tasks(wanted, range(rig.buckets)) == {}
        rig.schedule(1, first_in_ms=3_600_000, over_ms=1)
        with pytest.raises(NotApplied, match="commands were accepted there that no dispatcher has applied"):
            changelog.tasks(wanted, range(rig.buckets))
        rig.wait_active(rig.dispatcher("only"))
        assert changelog.tasks(wanted, range(rig.buckets)) == {}
