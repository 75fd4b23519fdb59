"""A local store that breaks, or has no room: nothing accepted is lost, and the process heals by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import AccessType, Options, Rdict

from tests.kafka.rig import Rig
from tickstream.model import DEFAULT_OPTIONS, Command, Verb
from tickstream.ops.processes import Event

FAR_MS = 3_600_000
ROOM_MB = 24
"""Of the small disk: a fresh store fits, the commands of the test do not."""


def _flip(store: Path, family: str) -> None:
    """Flip a byte in the first data block of the one file of a column family."""
    options = Options(raw_mode=True)
    families = dict.fromkeys(Rdict.list_cf(str(store)), options)
    opened = Rdict(str(store), options, families, AccessType.read_only())
    size = opened.get_column_family(family).property_int_value("rocksdb.total-sst-files-size")
    (file,) = [Path(f"{store}{f['name']}") for f in opened.live_files() if f["size"] == size]
    opened.close()
    content = bytearray(file.read_bytes())
    content[40] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("family", ["due", "state", "meta"])
def test_a_flipped_byte_is_found_while_it_runs_and_the_store_is_restored(
    family: str, broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("only")
        rig.wait_active(first)
        far = rig.schedule(1_000, first_in_ms=FAR_MS, over_ms=FAR_MS, name="far")
        rig.wait_applied()
        first.stop()
        _flip(tmp_path / "only" / "0" / "store", family)
        due = rig.schedule(60, first_in_ms=0, over_ms=1_000)
        for task_id in far:
            rig.cancel(task_id)  # reads every state
        rig.flush()
        again = rig.dispatcher("only")
        alarm = again.wait_event(lambda e: e["event"] == "alarm" and "is broken" in e["reason"])
        assert "Corruption" in alarm["reason"]
        found = again.events.index(alarm)
        rig.wait_active(again, since=found)
        restored = [e["restored"] for e in again.events[found:] if e["event"] == "lane_active"]
        assert sum(restored) >= 2 * len(far), "their specs and states came back from the changelog"
        rig.assert_each_once(due)
        assert again.returncode is None, "the process went on"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room. Only root may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM_MB}m", "tmpfs", str(place)], check=True, timeout=10
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=10)


def _is_full(event: Event) -> bool:
    return event.get("event") == "alarm" and "No space left on device" in str(event.get("reason"))


def test_a_full_disk_loses_nothing_says_so_and_goes_on_when_there_is_room(
    broker: str, prefix: str, tmp_path: Path, small_disk: Path
) -> None:
    with Rig(broker, prefix, small_disk) as rig:
        only = rig.dispatcher("only")
        rig.wait_active(only)
        at_ms = only.events[0]["at_ms"] + FAR_MS
        for n in range(600):
            task_id = f"large:{n}"
            # 36 MB that do not compress, for a disk of 24.
            body = os.urandom(60_000)
            rig.send(
                Command(rig.command_id(), Verb.SCHEDULE, task_id, at_ms, "default", DEFAULT_OPTIONS, body)
            )
        rig.flush()
        alarm = only.wait_event(_is_full, 60)
        assert "Make room" in alarm["reason"]
        # Still accepted while it is full: soon due, to be seen afterwards.
        due = rig.schedule(60, first_in_ms=0, over_ms=1_000)
        seen = len(only.events)
        only.wait_event(_is_full, 30, since=seen)
        assert only.returncode is None
        subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True, timeout=10)
        rig.wait_active(only, since=len(only.events))
        rig.assert_each_once(due)
        assert only.returncode is None
