"""A history before it happens: what clients ask, what goes wrong and when. Made from a seed, made smaller by hand.

Values only; simulation.py carries a plan out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tickstream.codec import encode_body
from tickstream.model import NEVER, Body, Command, IfExists, Options, RunTerms, Verb
from tickstream.testing.clock import START_MS
from tickstream.testing.sim.faults import Rates
from tickstream.testing.sim.worker import HANDLER, QUEUE
from tickstream.testing.sim.world import MS, SECOND

LAYOUTS: Final = ((2, 1), (2, 2), (3, 2), (4, 2))
BODY: Final = encode_body(Body(HANDLER, b"", {}, {}))


class Ask(NamedTuple):
    """Commands that a client sends at one instant."""

    at_us: int
    client: int
    commands: tuple[Command, ...]
    waits: bool


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
        _asks(rng, heal_us),
        _faults(rng, dispatchers, workers, heal_us),
        Rates() if rng.random() < 0.7 else Rates(slow=0.1, commit_unknown=0.08, aborted=0.08, init_lost=0.1),
        rng.choice((0, 1_500, 3_600_000, 3_600_000)),
        tuple(rng.randint(-skew, skew) for _ in range(processes)),
        tuple(1 + rng.choice((0, 0, 0.002, -0.002)) for _ in range(processes)),
        heal_us,
        rng.choice((0.0, 0.1, 0.3)),
        rng.choice((0.0, 0.0, 0.1)),
    )


# --------------------------------------------------------------------------- what clients ask


def _asks(rng: random.Random, heal_us: int) -> tuple[Ask, ...]:
    ids = iter(range(1, 10_000))
    tasks = [f"t{n}" for n in range(rng.randrange(4, 11))]
    asks: list[Ask] = []
    for task in tasks:
        at = rng.randrange(heal_us * 3 // 4)
        client = rng.randrange(2)
        said: list[Command] = []
        for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
            command = _command(rng, next(ids), task, at, said)
            said.append(command)
            asks.append(Ask(at, client, (command,), rng.random() < 0.6))
            at += rng.choice((0, 5, 100, 400, 1_500)) * MS
        if any(command.verb is Verb.PAUSE for command in said):
            # What stays paused has no end to come to.
            resume = _about(Verb.RESUME, next(ids), task)
            asks.append(Ask(max(at, heal_us), client, (resume,), True))
    if rng.random() < 0.5:
        # An import: many in one message.
        at = rng.randrange(heal_us // 2)
        many = tuple(_command(rng, next(ids), f"i{n}", at, []) for n in range(rng.randrange(2, 8)))
        asks.append(Ask(at, 0, many, rng.random() < 0.5))
    return tuple(sorted(asks, key=lambda a: a.at_us))


def _command(rng: random.Random, number: int, task: str, at_us: int, said: list[Command]) -> Command:
    luck = rng.random()
    if said and luck < 0.2:
        return rng.choice(said)  # the very same again
    command_id = number.to_bytes(16, "big")
    if said and luck < 0.38:
        return Command(command_id, Verb.CANCEL, task, NEVER, QUEUE, Options(running=rng.random() < 0.3), b"")
    if said and luck < 0.50:
        return _about(rng.choice((Verb.PAUSE, Verb.RESUME, Verb.TRIGGER)), number, task)
    if said and luck < 0.55:
        later = START_MS + at_us // MS + rng.choice((0, 300, 1_500))
        return _about(Verb.RESCHEDULE, number, task)._replace(when=later)
    if said and luck < 0.63:
        when = said[-1].when if said[-1].when != NEVER else START_MS + at_us // MS
    else:
        when = START_MS + at_us // MS + rng.choice((-500, 0, 3, 50, 300, 1_000, 2_500, 4_000))
    terms = RunTerms(
        rng.choice((700, 1_500, 3_000)), rng.choice((2_500, 6_000)), rng.choice((1, 2, 3)), 200, 1_000
    )
    exists = IfExists.REJECT if rng.random() < 0.1 else IfExists.REPLACE
    key = "scarce" if rng.random() < 0.15 else ""
    options = Options(exists, terms=terms, limit_key=key)
    return Command(command_id, Verb.SCHEDULE, task, when, QUEUE, options, BODY)


def _about(verb: Verb, number: int, task: str) -> Command:
    """A command about a task that stands."""
    return Command(number.to_bytes(16, "big"), verb, task, NEVER, QUEUE, Options(), b"")


# --------------------------------------------------------------------------- what goes wrong


def _faults(rng: random.Random, dispatchers: int, workers: int, heal_us: int) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    names = [f"dispatcher-{n}" for n in range(dispatchers)]
    for _ in range(rng.randrange(2, 7)):
        at = rng.randrange(SECOND, heal_us)
        luck = rng.random()
        whom = rng.choice(names) if rng.random() < 0.75 else f"worker-{rng.randrange(workers)}"
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
