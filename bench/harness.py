"""What all benchmarks share: the registry's entry, the result, and the JSON object that ends a run.

No benchmark and no Kafka client may enter here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.cluster import Cluster

UNITS: Final = ("_ms", "_s", "_bytes", "_us_per_next", "_us", "_ratio", "_pct")
"""How a figure's name ends; a bare count is one of COUNTS."""
PER: Final = "ms_per_"
"""How a figure taken at several sizes begins: `ms_per_check_50k`."""
COUNTS: Final = frozenset(
    {
        "scheduled",
        "ran",
        "measured",
        "lost",
        "duplicates",
        "early",
        "rounds",
        "records",
        "tasks",
        "alarms",
        "kills",
        "late",
        "double_outcomes",
        "timers",
        "stubs",
        "commands",
        "unanswered",
        "probes",
        "false_claims",
        "backward",
        "stopped_named",
        "off_rule",
        "skipped",
    }
)

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found. Ratios are figure / floor and have no unit."""

    metrics: Figures
    floor: Figures
    ratio: Figures
    """`floor` is the main figure over the raw floor of the same run."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Under which the floors ran: printed beside them."""
    ok: bool = True
    """False when a promise was broken while tasks ran (lost, duplicates, early)."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a benchmark is given."""

    kafka: Cluster | None
    """None for a benchmark that asked for no broker."""
    options: argparse.Namespace
    quick: bool
    say: Callable[[str], None]
    """One line on the terminal, beside the result."""

    @property
    def cluster(self) -> Cluster:
        """The Kafka to run on."""
        if self.kafka is None:
            raise LookupError("this benchmark is registered as one without a broker")
        return self.kafka


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One entry of the registry."""

    name: str
    summary: str
    run: Callable[[Bench], Result]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _: None
    broker: bool = True
    """Whether a Kafka is started for it."""


# --------------------------------------------------------------------------- floors


@dataclass(frozen=True, slots=True)
class Expected:
    """What a floor of one kind measured when the design was made (design, facts measured)."""

    figure: float
    higher_is_better: bool = True

    def flags(self, measured: float) -> bool:
        """Whether the floor is below half of what was expected (of a time: above twice)."""
        return measured < self.figure / 2 if self.higher_is_better else measured > self.figure * 2


EXPECTED: Final[Mapping[str, Expected]] = {
    "produce_per_s": Expected(200_000),
    "consume_per_s": Expected(240_000),
    "transactional_per_s": Expected(65_000),
    # Eight buckets in four lanes at 2,000 due/s. Lower rates should be no later.
    "committed_p50_ms": Expected(12.5, higher_is_better=False),
    "committed_p99_ms": Expected(63, higher_is_better=False),
}
"""By the name under which every benchmark reports a floor of that kind."""


def floor_low(figures: Figures) -> list[str]:
    """The floors that are worse than half of what was expected: their ratios flatter."""
    return sorted(
        name for name, figure in figures.items() if name in EXPECTED and EXPECTED[name].flags(figure)
    )


# --------------------------------------------------------------------------- the JSON object


def document(name: str, result: Result, env: Mapping[str, object], *, quick: bool) -> dict[str, object]:
    """The object on the last line. Raises ValueError when a figure's name does not say its unit."""
    for figures in (result.metrics, result.floor):
        for figure in figures:
            check_name(figure)
    return {
        "bench": name,
        "metrics": dict(result.metrics),
        "floor": {**result.floor, "settings": dict(result.settings)},
        "floor_low": floor_low({**result.metrics, **result.floor}),
        "ratio": dict(result.ratio),
        "env": dict(env),
        "quick": quick,
    }


def check_name(name: str) -> None:
    """Raises ValueError unless `name` carries its unit or is a known count."""
    if name not in COUNTS and not name.endswith(UNITS) and not name.startswith(PER):
        raise ValueError(
            f"figure {name!r} does not say its unit: end it with one of {', '.join(UNITS)} (a rate with per_s)"
        )
