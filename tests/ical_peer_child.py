"""Run by path, with recurring-ical-events on its path: its occurrences of the files named on standard input, as JSON.

Nothing of tickstream may enter here: the peer has a dateutil of its own.
"""

import json
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import icalendar
import recurring_ical_events


def ms(moment: date | datetime) -> int:
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)


def occurrences(path: str, start: datetime, end: datetime) -> list[list[object]]:
    data = Path(path).read_bytes()
    found = set()
    for calendar in icalendar.Calendar.from_ical(data, multiple=True):
        for event in recurring_ical_events.of(calendar).between(start, end):
            begun, ended = event["DTSTART"].dt, event.end
            cancelled = str(event.get("STATUS", "")).upper() == "CANCELLED"
            if not cancelled:
                found.add((str(event.get("UID", "")).strip(), ms(begun), ms(ended)))
    return sorted(found)


def main() -> None:
    asked = json.load(sys.stdin)
    start = datetime.fromtimestamp(asked["start_ms"] / 1_000, UTC)
    end = datetime.fromtimestamp(asked["end_ms"] / 1_000, UTC)
    answers = {}
    for path in asked["files"]:
        try:
            answers[path] = occurrences(path, start, end)
        except Exception as error:  # noqa: BLE001 - whatever the peer makes of a broken file is its answer
            answers[path] = f"{type(error).__name__}: {error}"
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
