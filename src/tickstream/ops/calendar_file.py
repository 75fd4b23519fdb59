"""iCalendar files into a calendar, event by event: what became of each, by line.

What a file says is read in calendar/ical; what a calendar makes of an event is the dispatcher's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickstream.calendar import MemoryOccupancy, busy_time, check
from tickstream.calendar.expansion import expand
from tickstream.calendar.ical import Entry, Fate, Found, ReadCalendar, read_calendar
from tickstream.calendar.stored import OnConflict
from tickstream.calendar.values import Status
from tickstream.errors import InvalidInput
from tickstream.ingest.calendar import Calendar
from tickstream.model import Verdict, VerdictKind

_FATES: Final = {
    VerdictKind.SCHEDULED: Fate.TAKEN,
    VerdictKind.REPLACED: Fate.CHANGED,
    VerdictKind.CANCELLED: Fate.CANCELLED,
    VerdictKind.UNKNOWN: Fate.IGNORED,
}


def calendar_files(paths: list[Path]) -> list[Path]:
    """The files named, and those ending in .ics in the directories named. Raises InvalidInput when there are none."""
    found = [file for path in paths for file in (sorted(path.rglob("*.ics")) if path.is_dir() else [path])]
    if not found:
        raise InvalidInput(f"{', '.join(map(str, paths))}: no .ics file is in there")
    return found


def import_file(
    data: bytes, room: Calendar, handler: str, queue: str | None, on_conflict: OnConflict
) -> Iterator[Entry]:
    """Put every event of a file into the calendar; one entry for each and for all that could not be read.

    Raises BrokerUnavailable, SendFailed, VerdictTimeout: what was reported until then is done.
    """
    read = read_calendar(data, room.zone)
    yield from read.entries
    for found in read.events:
        yield _imported(found, read, room, handler, queue, on_conflict)


def _imported(
    found: Found, read: ReadCalendar, room: Calendar, handler: str, queue: str | None, on_conflict: OnConflict
) -> Entry:
    line, event, partial = found
    if partial:
        reason = "only a changed occurrence stands here; import the file that has its series, with the change in it"
        return Entry(line, event.uid, Fate.REJECTED, reason)
    try:
        if read.cancels or event.status is Status.CANCELLED:
            return _entry(line, event.uid, room.remove(event.uid))
        if handler:
            verdict = room.put(event, on_conflict=on_conflict, handler=handler, payload=b"", queue=queue)
        else:
            verdict = room.put(event, on_conflict=on_conflict)
    except InvalidInput as error:
        return Entry(line, event.uid, Fate.REJECTED, str(error))
    return _entry(line, event.uid, verdict)


def _entry(line: int, uid: str, verdict: Verdict) -> Entry:
    said = verdict.detail or ("" if verdict.kind in _FATES else verdict.kind.value.lower().replace("_", " "))
    kind = "conflict: " if verdict.kind is VerdictKind.CONFLICT else ""
    return Entry(line, uid, _FATES.get(verdict.kind, Fate.REJECTED), kind + said)


def dry_run(data: bytes, zone: str, start_ms: int, horizon_ms: int) -> Iterator[Entry]:
    """What the file's events come to beside each other, in [start_ms, horizon_ms) (ms, UTC); nothing is sent."""
    read = read_calendar(data, zone)
    yield from read.entries
    taken = MemoryOccupancy()
    for line, event, _ in read.events:
        expansion = expand(event, zone)
        try:
            met = check(expansion, taken, start_ms, horizon_ms, limit=1).conflicts
            taken.add(busy_time(expansion, start_ms, horizon_ms))
        except InvalidInput as error:
            yield Entry(line, event.uid, Fate.REJECTED, str(error))
            continue
        yield Entry(line, event.uid, Fate.TAKEN, f"it meets {met[0].busy.uid!r} of this file" if met else "")
