"""A history before it happens: who takes part, what goes wrong and when. Made from a seed, made smaller by hand.

Values only; simulation.py carries a plan out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tickstream.testing.sim.asks import Ask, draw_asks, draw_traits
from tickstream.testing.sim.faults import Rates
from tickstream.testing.sim.world import MS, SECOND

LAYOUTS: Final = ((2, 1), (2, 2), (3, 2), (4, 2))
_STANDBY: Final = 0.25


class Kind(Enum):
    """What goes wrong with a process, or with the cluster."""

    CRASH = "crash"
    """At its n-th next point; it comes back after a while."""
    PAUSE = "pause"
    STEP = "step"
    """Its wall clock is set."""
    LOSE_DISK = "lose disk"
    """It crashes and its disk is that of its start, or empty."""
    STALL = "stall"
    """The group's coordinator is away for longer than a session."""
    COMPACT = "compact"
    PURGE = "purge"


class Fault(NamedTuple):
    """One thing that goes wrong."""

    at_us: int
    kind: Kind
    whom: str
    """A process, or empty."""
    points: int
    """How many points it still passes."""
    amount: int
    """µs of a pause or until a restart, ms of a step, per mille of a log."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided beforehand; what is left to dice is drawn from the seed."""

    seed: int
    buckets: int
    lanes: int
    dispatchers: int
    workers: int
    asks: tuple[Ask, ...]
    faults: tuple[Fault, ...]
    rates: Rates
    retention_ms: int
    offsets_ms: tuple[int, ...]
    """How far each process's wall clock is ahead."""
    drifts: tuple[float, ...]
    heal_us: int
    failing: float
    hanging: float
    standby: bool
    """Whether dispatchers keep warm what others own, and join their group once they are."""


def make_plan(seed: int) -> Plan:
    """The history of a seed."""
    rng = random.Random(f"{seed}/plan")
    buckets, lanes = rng.choice(LAYOUTS)
    dispatchers, workers = rng.choice((2, 2, 3)), 2
    heal_us = rng.randrange(3, 7) * SECOND
    processes = dispatchers + workers + 1
    skew = rng.choice((0, 0, 30, 400))
    return Plan(
        seed,
        buckets,
        lanes,
        dispatchers,
        workers,
        draw_asks(rng, draw_traits(rng), heal_us),
        _faults(rng, dispatchers, workers, heal_us),
        Rates() if rng.random() < 0.7 else Rates(slow=0.1, commit_unknown=0.08, aborted=0.08, init_lost=0.1),
        rng.choice((0, 1_500, 3_600_000, 3_600_000)),
        tuple(rng.randint(-skew, skew) for _ in range(processes)),
        tuple(1 + rng.choice((0, 0, 0.002, -0.002)) for _ in range(processes)),
        heal_us,
        rng.choice((0.0, 0.1, 0.5)),
        rng.choice((0.0, 0.0, 0.1)),
        rng.random() < _STANDBY,
    )


# --------------------------------------------------------------------------- what goes wrong


def _faults(rng: random.Random, dispatchers: int, workers: int, heal_us: int) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    names = [f"dispatcher-{n}" for n in range(dispatchers)]
    share = rng.choice((0.4, 0.9))
    for _ in range(rng.randrange(2, 7)):
        at = rng.randrange(SECOND, heal_us)
        luck = rng.random()
        whom = rng.choice(names) if rng.random() < share else f"worker-{rng.randrange(workers)}"
        points = rng.choice((0, 1, 2, 3, 5, 8, 13, 21))
        if luck < 0.27:
            faults.append(Fault(at, Kind.CRASH, whom, points, rng.randrange(100, 3_000) * MS))
        elif luck < 0.57:
            faults.append(Fault(at, Kind.PAUSE, whom, points, rng.choice((300, 1_500, 2_500, 3_500)) * MS))
        elif luck < 0.65:
            faults.append(Fault(at, Kind.LOSE_DISK, rng.choice(names), points, rng.choice((0, 1))))
        elif luck < 0.71:
            step = rng.choice((-3_600_000, -2_000, -100, 100, 2_000, 5_000))
            faults.append(Fault(at, Kind.STEP, rng.choice(names), 0, step))
        elif luck < 0.82:
            faults.append(Fault(at, Kind.STALL, "", 0, 0))
        elif luck < 0.91:
            faults.append(Fault(at, Kind.COMPACT, "", 0, rng.randrange(300, 1_001)))
        elif luck < 0.97:
            faults.append(Fault(at, Kind.PURGE, "", 0, 0))
        else:
            faults.append(Fault(at, Kind.CRASH, "projection", 0, rng.randrange(100, 2_000) * MS))
    return tuple(sorted(faults, key=lambda f: f.at_us))
