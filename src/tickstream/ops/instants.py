"""Instants and durations as people type them.

Pure: what "now" is, the caller says.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from tickstream.clock import ceil_ms
from tickstream.errors import InvalidInput

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_RELATIVE: Final = re.compile(r"(?:now)?\s*([+-])\s*(.+)")


def parse_duration(text: str) -> int:
    """Milliseconds of `250ms`, `30s`, `1.5m`, `2h`, `1d`; a bare number is seconds. Raises InvalidInput."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"{text!r} is no duration; write 250ms, 30s, 5m, 2h or 1d")
    return round(float(found[1]) * _UNITS_MS[found[2] or "s"])


def parse_instant(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch, UTC, of `now`, `now+30s`, `+30s`, `-5m` or ISO 8601 with a zone.

    Raises InvalidInput.
    """
    text = text.strip()
    if text.lower() == "now":
        return now_ms
    if found := _RELATIVE.fullmatch(text.lower()):
        distance = parse_duration(found[2])
        return now_ms + distance if found[1] == "+" else now_ms - distance
    return parse_iso(text)


def parse_iso(text: str) -> int:
    """Milliseconds since the epoch, UTC, of ISO 8601 with a zone; finer than a millisecond rounds up.

    Raises InvalidInput.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no instant; write it as 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r} has no time zone; write {text}+01:00, or {text}Z for UTC")
    return ceil_ms(moment)
