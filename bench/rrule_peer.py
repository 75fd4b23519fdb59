"""What `dateutil.rrule`, whoever provides that package on this path, needs to find the next occurrence.

Run as a script with a path of its own, since the engines share the package's name: reads the question as
JSON on stdin, prints the answer as JSON. Nothing of tickstream may enter here.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta
from statistics import median

from dateutil.rrule import rrulestr

TRIES = 5


def measure(rule: str, start: datetime, ages_s: list[int], limit_s: float) -> list[float | None]:
    """µs for one `after` at each age, by median; None where walking there is foreseen to take too long."""
    found: list[float | None] = []
    before = (0.0, 1)
    for age_s in ages_s:
        if before[0] * age_s / before[1] > limit_s:
            found.append(None)
            continue
        parsed = rrulestr(rule, dtstart=start)
        instants = [start + timedelta(seconds=age_s, hours=number) for number in range(TRIES)]
        taken = [_seconds(parsed, instant) for instant in instants]
        before = (median(taken), age_s)
        found.append(before[0] * 1e6)
    return found


def _seconds(rule, instant: datetime) -> float:  # type: ignore[no-untyped-def]  # the type differs by engine
    began = time.perf_counter()
    rule.after(instant)
    return time.perf_counter() - began


if __name__ == "__main__":
    question = json.load(sys.stdin)
    begin = datetime.fromisoformat(question["start"])
    answer = {
        name: measure(rule, begin, question["ages_s"], question["limit_s"])
        for name, rule in question["rules"].items()
    }
    json.dump(answer, sys.stdout)
