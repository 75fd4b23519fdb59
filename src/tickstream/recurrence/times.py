"""Times of day: every hour, minute and second of three lists, in order, without writing them all out.

No day may enter here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final


class TimesOfDay:
    """The times hh:mm:ss with hh in `hours`, mm in `minutes` and ss in `seconds` (each ascending, none empty)."""

    def __init__(self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> None:
        self._hours: Final = hours
        self._minutes: Final = minutes
        self._seconds: Final = seconds
        self.count: Final = len(hours) * len(minutes) * len(seconds)
        self.first: Final = self.at(0)

    def at(self, index: int) -> int:
        """The time in seconds of the day, by its place in the order from 0."""
        rest, second = divmod(index, len(self._seconds))
        hour, minute = divmod(rest, len(self._minutes))
        return self._hours[hour] * 3_600 + self._minutes[minute] * 60 + self._seconds[second]

    def from_(self, time: int) -> int | None:
        """The first time at or after `time` (seconds of the day, up to all of it); None when there is none."""
        hour, minute, second = time // 3_600, time // 60 % 60, time % 60
        hours, minutes, seconds = self._hours, self._minutes, self._seconds
        h = bisect_left(hours, hour)
        if h == len(hours):
            return None
        if hours[h] > hour:
            return self.at(h * len(minutes) * len(seconds))
        m = bisect_left(minutes, minute)
        if m < len(minutes) and minutes[m] == minute:
            s = bisect_left(seconds, second)
            if s < len(seconds):
                return hour * 3_600 + minute * 60 + seconds[s]
            m += 1
        if m < len(minutes):
            return hour * 3_600 + minutes[m] * 60 + seconds[0]
        h = bisect_right(hours, hour)
        return self.at(h * len(minutes) * len(seconds)) if h < len(hours) else None

    def meets(self, residue: int, modulus: int) -> bool:
        """Whether any of the times leaves `residue` when divided by `modulus`, which divides a day's 86,400."""
        upper = {(h * 3_600 + m * 60) % modulus for h in self._hours for m in self._minutes}
        return any((residue - second) % modulus in upper for second in self._seconds)

    def __iter__(self) -> Iterator[int]:
        return (self.at(index) for index in range(self.count))
