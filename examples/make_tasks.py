"""Makes tasks.jsonl: a large installation's crontab, pressed into one minute.

    python examples/make_tasks.py

Crontabs are written by people, who like round numbers: `0 * * * *` is what most jobs say, `*/5` comes
next. So there are peaks at the full minutes (the start and the end of this one), smaller ones at the half
minute and at every multiple of five seconds, and between them a trickle of what people and machines asked
for at some odd instant. The seed is fixed: the file is the same on every machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TASKS = 10_000
SECONDS = 60
FILE = Path(__file__).with_name("tasks.jsonl")

SEED = 20261130
FULL_MINUTE, HALF_MINUTE, FIFTH_SECOND = 1_000, 500, 250
REGIONS = ("eu", "us", "ap")


class Kind(NamedTuple):
    """One sort of job: its id, and how often it stands at a round instant and at an odd one."""

    name: str
    task_id: str
    round_weight: int
    odd_weight: int


KINDS = (
    Kind("report", "report:{region}:{number}", 30, 5),
    Kind("invoice", "invoice:2026-11:{number}", 20, 5),
    Kind("backup", "backup:db-{number}", 15, 2),
    Kind("digest", "mail:digest:user-{number}", 20, 8),
    Kind("probe", "probe:host-{number}:http", 10, 25),
    # Ids with the same {…} share a bucket, and with it an order: everything about one room.
    Kind("reminder", "{{room-{room}}}reminder:{number}", 5, 40),
    Kind("retry", "retry:order-{number}", 0, 15),
)


def instants(rng: random.Random) -> Iterator[tuple[float, bool]]:
    """Seconds from the start for every task, and whether somebody chose a round number."""
    made = 0
    for second in range(0, SECONDS + 1, 5):
        size = FULL_MINUTE if second % 60 == 0 else HALF_MINUTE if second % 30 == 0 else FIFTH_SECOND
        made += size
        yield from ((float(second), True) for _ in range(size))
    yield from ((rng.randrange(1, SECONDS * 1_000) / 1_000, False) for _ in range(TASKS - made))


def lines() -> Iterator[str]:
    """The file's lines, in the order of their instants."""
    rng = random.Random(SEED)
    numbers = iter(rng.sample(range(1_000, 100_000), TASKS))
    round_weights = [kind.round_weight for kind in KINDS]
    odd_weights = [kind.odd_weight for kind in KINDS]
    for offset, is_round in sorted(instants(rng)):
        (kind,) = rng.choices(KINDS, round_weights if is_round else odd_weights)
        region = rng.choice(REGIONS)
        number = next(numbers)
        task = {
            "task_id": kind.task_id.format(region=region, number=number, room=number % 40 + 1),
            "offset_s": offset,
            "handler": "demo",
            "payload": {"kind": kind.name, "number": number},
            "labels": {"kind": kind.name, "region": region},
        }
        yield json.dumps(task, separators=(",", ":"))


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
