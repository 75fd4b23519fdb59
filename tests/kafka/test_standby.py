"""A dispatcher with --standby all has the dead one's lanes within two seconds of its death being noticed."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.kafka.rig import Rig

TAKE_OVER_MS = 2_000
FAR_MS = 3_600_000


def test_the_heir_of_a_killed_owner_has_next_to_nothing_to_read(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        owner = rig.dispatcher("owner")
        rig.wait_active(owner)
        far = rig.schedule(20_000, first_in_ms=FAR_MS, over_ms=FAR_MS, name="far")
        rig.wait_applied()
        heir = rig.dispatcher("heir", standby=True)
        warm = heir.wait_event("standby_warm")
        assert warm["restored"] >= 2 * len(far)
        # It joins only now, and gets its share; what it does not own it goes on keeping.
        rig.wait_active(heir, lanes=1)
        moved = [e for e in heir.events if e["event"] == "lane_active"]
        assert all(e["restored"] < 100 for e in moved), "what it gets in good order is warm too"
        due = rig.schedule(60, first_in_ms=500, over_ms=3_000)
        seen = len(heir.events)
        owner.kill(signal.SIGKILL)
        taken = heir.wait_event("lane_active", since=seen)
        assigned = heir.wait_event(lambda e: e["event"] == "lane_assigned" and e["lane"] == taken["lane"])
        assert taken["at_ms"] - assigned["at_ms"] <= TAKE_OVER_MS
        assert taken["restored"] < 1_000
        rig.assert_each_once(due)
