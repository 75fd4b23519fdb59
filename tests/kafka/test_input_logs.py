"""Truncated, purged and damaged logs: what may go goes, and what must not be missing stops its bucket."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.kafka.rig import Rig
from tests.waiting import eventually
from tickstream.codec import PROGRESS, STATE, decode_progress, encode_state, timers_key
from tickstream.model import NEVER, Rev, TaskState, bucket_of
from tickstream.ops.processes import Event, ManagedProcess

FAR_MS = 3_600_000


def _alarm(process: ManagedProcess, bucket: int) -> str:
    def of_bucket(event: Event) -> bool:
        return event.get("event") == "alarm" and event.get("bucket") == bucket

    return str(process.wait_event(of_bucket)["reason"])


def _active_buckets(process: ManagedProcess) -> set[int]:
    return {b for e in process.events if e["event"] == "lane_active" for b in e["buckets"]}


def _progress(rig: Rig) -> dict[int, int]:
    """Bucket → next offset of its commands."""
    return {
        partition: decode_progress(value or b"").commands.offset
        for partition, _, key, value in rig.read(rig.names.timers)
        if key == timers_key(PROGRESS)
    }


def test_what_is_applied_is_purged_after_the_window_and_nothing_else(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        partitions = [(rig.names.commands, b) for b in range(rig.buckets)]
        first = rig.dispatcher("only", options=("--keep-inputs-ms=1",))
        rig.wait_active(first)
        due = rig.schedule(60, first_in_ms=8_000, over_ms=1_000)
        rig.wait_applied()
        assert eventually(lambda: rig.admin.starts(partitions) == rig.admin.ends(partitions), 20)
        first.stop()
        starts = rig.admin.starts(partitions)
        assert {b: starts[t, b] for t, b in partitions} == _progress(rig)
        # Accepted while nobody applies: older than the window when it is, and must be there still.
        due |= rig.schedule(60, first_in_ms=8_000, over_ms=1_000, name="late")
        again = rig.dispatcher("only", options=("--keep-inputs-ms=1",))
        rig.wait_active(again)
        assert [e for e in again.events if e["event"] == "alarm"] == []
        rig.assert_each_once(due)


def test_commands_deleted_before_they_were_applied_stop_their_bucket_only(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("only")
        rig.wait_active(first)
        rig.schedule(40, first_in_ms=FAR_MS, over_ms=FAR_MS)
        rig.wait_applied()
        first.stop()
        lost = rig.schedule(40, first_in_ms=FAR_MS, over_ms=FAR_MS, name="lost")
        bucket = bucket_of(next(iter(lost)), rig.buckets)
        place = (rig.names.commands, bucket)
        rig.admin.delete_records({place: rig.admin.ends([place])[place]})
        again = rig.dispatcher("only")
        assert "records were deleted before they were applied" in _alarm(again, bucket)
        rig.wait_active(again)
        assert _active_buckets(again) == set(range(rig.buckets)) - {bucket}


def test_commands_deleted_under_a_running_dispatcher_stop_their_bucket_only(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        only = rig.dispatcher("only")
        rig.wait_active(only)
        rig.schedule(40, first_in_ms=FAR_MS, over_ms=FAR_MS)
        rig.wait_applied()
        bucket = bucket_of("t:0", rig.buckets)
        place = (rig.names.commands, bucket)
        only.send(signal.SIGSTOP)  # or it would have read them by then
        # A fetch is under way: what comes first is sent to it, stopped or not. What comes then is not. A busy
        # broker answers it some time after it took the first; by the fifth it has.
        for turn in range(5):
            rig.schedule(40, first_in_ms=FAR_MS, over_ms=FAR_MS, name=f"sent{turn}")
        due = rig.schedule(40, first_in_ms=0, over_ms=1_000, name="lost")
        rig.admin.delete_records({place: rig.admin.ends([place])[place]})
        only.send(signal.SIGCONT)
        _alarm(only, bucket)
        others = {t: at for t, at in due.items() if bucket_of(t, rig.buckets) != bucket}
        assert {w.task_id for w in rig.work(at_least=len(others))} == others.keys()


def test_a_changelog_with_tasks_and_no_progress_stops_its_bucket(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        state = TaskState(Rev(0, 0), FAR_MS, NEVER, (), None, NEVER, ())
        rig.send_raw(rig.names.timers, 1, encode_state(state), key=timers_key(STATE, "orphan"))
        rig.flush()
        only = rig.dispatcher("only")
        assert "no Progress" in _alarm(only, 1)
        rig.wait_active(only)
        assert _active_buckets(only) == {0, 2, 3}


def test_a_record_of_a_newer_release_stops_its_bucket_until_the_upgrade(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("only")
        rig.wait_active(first)
        due = rig.schedule(60, first_in_ms=6_000, over_ms=1_000)
        rig.wait_applied()
        first.stop()
        newer = b"\xc3\x01" + b"newer!!!" + b"\0"
        rig.send_raw(rig.names.timers, 2, newer, key=timers_key(STATE, "of the future"))
        rig.flush()
        again = rig.dispatcher("only")
        assert "upgrade this process first" in _alarm(again, 2)
        rig.wait_active(again)
        assert _active_buckets(again) == {0, 1, 3}
        others = {t: at for t, at in due.items() if bucket_of(t, rig.buckets) != 2}
        assert {w.task_id for w in rig.work(at_least=len(others))} == others.keys()


def test_a_recreated_input_stops_every_bucket_that_read_from_the_old_one(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("only")
        rig.wait_active(first)
        rig.schedule(40, first_in_ms=FAR_MS, over_ms=FAR_MS)
        rig.wait_applied()
        first.stop()
        rig.recreate(rig.names.commands)
        again = rig.dispatcher("only")
        for bucket in range(rig.buckets):
            assert "re-created" in _alarm(again, bucket)


def test_a_recreated_changelog_wipes_what_the_store_has_of_the_old_one(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("only")
        rig.wait_active(first)
        rig.schedule(40, first_in_ms=0, over_ms=8_000, name="old")
        rig.wait_applied()
        first.stop()
        done = {w.task_id for w in rig.work(at_least=1)}
        for topic in (rig.names.timers, rig.names.commands, rig.names.reports):
            rig.recreate(topic)
        again = rig.dispatcher("only")
        rig.wait_active(again)
        due = rig.schedule(40, first_in_ms=0, over_ms=1_000, name="new")
        rig.wait_applied()
        new = {w.task_id for w in rig.work(at_least=len(done) + len(due))} - done
        assert new == due.keys(), "nothing of the old store was fired"
