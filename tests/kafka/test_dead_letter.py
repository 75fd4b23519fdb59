"""Dead letters are listed and replayed by the command line, on a running dispatcher."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.kafka.rig import Rig
from tickstream.codec import encode_reports
from tickstream.model import NO_RETRY, Report, ReportKind, Work, bucket_of


def _give_up(rig: Rig, work: Work) -> None:
    now = time.time_ns() // 1_000_000
    report = Report(
        ReportKind.FAILED, work.task_id, work.occurrence_ts, work.attempt, os.urandom(16), "noop",
        now, now, now, "ValueError: never", NO_RETRY,
    )  # fmt: skip
    rig.send_raw(rig.names.reports, work.bucket, encode_reports("w", [report]))


def test_letters_are_listed_and_get_another_chance(
    capsys: pytest.CaptureFixture[str], broker: str, prefix: str, tmp_path: Path
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}")
    with Rig(broker, prefix, tmp_path) as rig:
        rig.wait_active(rig.dispatcher("only"))
        assert cli("dead-letter", "list").out == "no letters\n"
        (task_id,) = rig.schedule(1, first_in_ms=0, over_ms=1)
        (work,) = rig.work(at_least=1)
        _give_up(rig, work)
        bucket = bucket_of(task_id, rig.buckets)
        rig.send_raw(rig.names.commands, bucket, b"rubbish")
        rig.flush()
        rig.wait_applied()

        letters = cli("dead-letter", "list", "--json").value["letters"]
        gave_up = next(x for x in letters if x["reason"] == "gave_up")
        unread = next(x for x in letters if x["reason"] == "undecodable")
        assert (gave_up["task_id"], gave_up["queue"], len(letters)) == (task_id, "default", 2)
        assert (unread["bucket"], unread["bytes"]) == (bucket, len(b"rubbish"))
        assert f"{task_id}: ValueError: never" in cli("dead-letter", "list", "--reason=gave_up").out

        chosen = ("--handler=noop", "--error-like=ValueError: never", "--from=now-1h")
        assert cli("dead-letter", "replay", "--dry-run", "--json", *chosen).value["would_be"] == [
            gave_up["letter"]
        ]
        for which in ((gave_up["letter"],), chosen):  # the second time changes nothing
            sent = cli("dead-letter", "replay", *which)
            assert (sent.code, sent.out.split()[0]) == (0, gave_up["letter"])
        again = rig.work(at_least=2)[1]
        assert (again.task_id, again.body, again.attempt) == (task_id, work.body, 1)
        assert again.occurrence_ts > work.occurrence_ts
        rig.wait_applied()
        assert len(rig.work(at_least=2)) == 2

        # Still nobody can read it: it comes back as a letter of its own.
        assert cli("dead-letter", "replay", "--reason=undecodable").code == 0
        rig.wait_applied()
        unread = cli("dead-letter", "list", "--reason=undecodable", "--json").value["letters"]
        assert len(unread) == 2


def test_what_cannot_be_replayed_is_said(
    capsys: pytest.CaptureFixture[str], broker: str, prefix: str, tmp_path: Path
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}")
    with Rig(broker, prefix, tmp_path):
        missing = cli("dead-letter", "replay", "0:99")
        assert (missing.code, missing.err) == (
            2,
            "error: there is no letter 0:99; letters are kept for 30 days\n",
        )
        assert "not both" in cli("dead-letter", "replay").err
