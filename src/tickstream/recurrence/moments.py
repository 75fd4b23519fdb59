"""From wall clock times to instants: gaps, folds and elapsed time, always strictly later in UTC.

Seconds throughout. What a rule says and where its times come from may not enter here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tickstream.recurrence.civil import DAY
from tickstream.recurrence.values import Fold, Gap
from tickstream.recurrence.zones import Segment, Zone

HORIZON: Final = 146_097 * DAY
"""How far ahead the next moment is looked for: the calendar's whole cycle of 400 years."""


class Moment(NamedTuple):
    """An occurrence: `values.Pointer`, in seconds."""

    nominal_local: int
    fold: int
    instant: int


LocalTimes: TypeAlias = Callable[[int], int | None]
"""The first wall clock time later than the one given; None when none follows."""


def resolve(zone: Zone, local: int, gap: Gap, fold: Fold) -> tuple[Moment, ...]:
    """The instants that the policies make of one wall clock time: none, one or two, the earlier first."""
    readings = zone.readings(local)
    match len(readings.instants):
        case 0:
            if gap is Gap.SKIP:
                return ()
            return (Moment(local, 0, readings.shifted if gap is Gap.SHIFT else readings.gap_end),)
        case 1:
            return (Moment(local, 0, readings.instants[0]),)
        case _:
            both = (Moment(local, 0, readings.instants[0]), Moment(local, 1, readings.instants[1]))
            return both if fold is Fold.BOTH else (both[fold is Fold.SECOND],)


class OnWallClock:
    """Times that a wall clock names, each made an instant by the policies."""

    def __init__(self, zone: Zone, times: LocalTimes, gap: Gap, fold: Fold) -> None:
        self._zone: Final = zone
        self._times: Final = times
        self._gap: Final = gap
        self._fold: Final = fold

    def __call__(self, after: int) -> Moment | None:
        """The first moment later than the instant `after`."""
        segment = self._zone.segment(after)
        local = after + segment.offset - _look_back(segment, after)
        horizon = after + HORIZON
        best: Moment | None = None
        while (following := self._times(local)) is not None and following < horizon:
            local = following
            if best is not None and local - best.nominal_local > 2 * DAY:
                break  # no clock was ever moved by more than a day, so all that follows is later in UTC
            moments, plain = self._read(segment, local)
            for moment in moments:
                if moment.instant > after and (best is None or moment.instant < best.instant):
                    best = moment
            if plain and best is not None:
                break  # what follows a plain time follows it in UTC too
        return best

    def _read(self, segment: Segment, local: int) -> tuple[tuple[Moment, ...], bool]:
        """The moments of a wall clock time, most likely in `segment`; and whether it is far from any change."""
        instant = local - segment.offset
        if _is_plain(segment, instant):
            return (Moment(local, 0, instant),), True
        moments = resolve(self._zone, local, self._gap, self._fold)
        plain = len(moments) == 1 and _is_plain(self._zone.segment(moments[0].instant), moments[0].instant)
        return moments, plain


def _look_back(segment: Segment, instant: int) -> int:
    """How far back on the wall clock times begin that may still lie ahead: shifted ones, second readings."""
    if _is_plain(segment, instant):
        return 0
    return 2 * max(abs(segment.change_before), abs(segment.change_after)) + 1


def _is_plain(segment: Segment, instant: int) -> bool:
    """Whether the clock shows the time of `instant` once, and no change has moved another time there."""
    return segment.start + abs(segment.change_before) <= instant < segment.end - abs(segment.change_after)


class InElapsedTime:
    """Times read off the wall clock while time passes evenly: the clock's changes are ridden out, not resolved."""

    def __init__(self, zone: Zone, times: Callable[[int, int, int], int | None], start: int) -> None:
        """`times(offset, after, until)`: the first wall clock time later than `after`, under that UTC offset.

        It answers `until` or more when there is none before that, None when there is none under any offset.
        Nothing before the instant `start` occurs.
        """
        self._zone: Final = zone
        self._times: Final = times
        self._start: Final = start

    def __call__(self, after: int) -> Moment | None:
        """The first moment later than the instant `after`."""
        after = max(after, self._start - 1)
        horizon = after + HORIZON
        while after < horizon:
            segment = self._zone.segment(after + 1)
            local = self._times(segment.offset, after + segment.offset, segment.end + segment.offset)
            if local is None:
                return None
            instant = local - segment.offset
            if instant < segment.end:
                return Moment(local, segment.fold(instant), instant)
            # No offset differs from another by more than two days.
            after = max(segment.end - 1, instant - 2 * DAY)
        return None
