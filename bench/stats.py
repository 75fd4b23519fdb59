"""Statistics of samples: percentiles, summaries in milliseconds, interleaved repetitions.

No clock and no I/O may enter here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

__all__ = ["interleaved", "latency", "median", "percentile", "ratio"]


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the least sample that at least `share` of all do not exceed.

    `share` in (0, 1]. Always a value that was measured, never an interpolation. Raises ValueError on
    no samples.
    """
    if not samples:
        raise ValueError("a percentile of no samples")
    if not 0 < share <= 1:
        raise ValueError(f"a percentile's share lies in (0, 1], not {share}")
    # The rounding keeps 0.07 * 100 from becoming the eighth of a hundred.
    rank = math.ceil(round(share * len(samples), 9))
    return sorted(samples)[rank - 1]


def latency(samples_ms: Sequence[float], name: str = "") -> dict[str, float]:
    """p50, p99, p99.9 and max of samples in ms, as `<name>_p50_ms` and so on. Raises ValueError on none."""
    ordered = sorted(samples_ms)
    head = f"{name}_" if name else ""
    return {
        f"{head}p50_ms": round(percentile(ordered, 0.50), 2),
        f"{head}p99_ms": round(percentile(ordered, 0.99), 2),
        f"{head}p999_ms": round(percentile(ordered, 0.999), 2),
        f"{head}max_ms": round(ordered[-1], 2),
    }


def interleaved(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Every measure once a round, in turn (A B A B …), so that a drift of the machine meets all alike."""
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            taken[name].append(measure())
    return taken


def ratio(figure: float, floor: float) -> float:
    """`figure / floor`, to three places. Raises ValueError when the floor measured nothing."""
    if floor <= 0:
        raise ValueError(f"a floor of {floor} is no measurement")
    return round(figure / floor, 3)
