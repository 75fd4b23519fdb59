"""Events with a length, and which of them want the same time: expansion, conflicts, free time.

Pure: values in, values out. No clock, no I/O and nothing of tasks may enter here; iCalendar files are in `ical/`.

An event is a value (`Event`); `admit` checks it once, `expand` gives its occurrences, `check` its conflicts with a
calendar's busy time (`Occupancy`). Instants are ms since the epoch, UTC; intervals are half open.
"""

from tickstream.calendar.conflicts import Checked, Conflict, busy_time, check, meeting
from tickstream.calendar.expansion import (
    MOST_OCCURRENCES,
    Expansion,
    admit,
    expand,
    length_until,
    within_horizon,
)
from tickstream.calendar.free import Slot, Stretch, busy_stretches, common_slots, free_slots
from tickstream.calendar.occupancy import Busy, Cursor, MemoryOccupancy, Occupancy, Overlaid
from tickstream.calendar.values import (
    NO_DETAILS,
    NO_LENGTH,
    Added,
    Details,
    Event,
    Length,
    Occurrence,
    Override,
    Reminder,
    Status,
    Transparency,
    parse_length,
)

__all__ = [
    "MOST_OCCURRENCES",
    "NO_DETAILS",
    "NO_LENGTH",
    "Added",
    "Busy",
    "Checked",
    "Conflict",
    "Cursor",
    "Details",
    "Event",
    "Expansion",
    "Length",
    "MemoryOccupancy",
    "Occupancy",
    "Occurrence",
    "Overlaid",
    "Override",
    "Reminder",
    "Slot",
    "Status",
    "Stretch",
    "Transparency",
    "admit",
    "busy_stretches",
    "busy_time",
    "check",
    "common_slots",
    "expand",
    "free_slots",
    "length_until",
    "meeting",
    "parse_length",
    "within_horizon",
]
