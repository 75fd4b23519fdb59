"""Cron expressions on the wall clock, read and stepped by the library cronsim.

cronsim sees wall clock times without a zone only: gaps and folds are this package's own, as for every schedule.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from cronsim import CronSim, CronSimError

from tickstream.errors import InvalidSchedule
from tickstream.recurrence.civil import seconds_of, wall_of

_LAST_YEAR: Final = 9_900
"""cronsim looks 50 years ahead, which has to stay within Python's calendar."""


class CronTimes:
    """The times of one expression: five fields, or six with the seconds first."""

    def __init__(self, expression: str) -> None:
        """Raises InvalidSchedule."""
        try:
            self._sim: Final = CronSim(expression, wall_of(0))
        except CronSimError as error:
            raise InvalidSchedule("cron", expression, _reason(error, expression)) from None
        self.starred: Final = self._sim.parts[1].startswith("*") or self._sim.parts[2].startswith("*")
        """Whether the expression runs through the day (minute or hour begins with `*`), as Debian's cron tells it."""

    def next_local(self, after: int) -> int | None:
        """The first time later than `after`, in wall clock seconds; None when none comes within 50 years."""
        wall = wall_of(after)
        if wall.year > _LAST_YEAR:
            return None
        sim = copy(self._sim)  # stepping changes it, and threads share this object
        sim.dt = wall
        found = next(sim, None)
        return None if found is None else seconds_of(found)


def _reason(error: CronSimError, expression: str) -> str:
    if len(expression.split()) not in (5, 6):
        return "a cron expression has five fields (minute hour day month weekday), or six with seconds first"
    return f"{str(error).lower()}; the fields are [second] minute hour day month weekday"
