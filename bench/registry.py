"""Every benchmark by name."""

from __future__ import annotations

from typing import Final

from bench import client, floor, lateness, recurrence, takeover, worker
from bench.harness import Benchmark

BENCHMARKS: Final = {
    b.name: b
    for b in (
        floor.BENCHMARK,
        client.BENCHMARK,
        lateness.BENCHMARK,
        takeover.BENCHMARK,
        recurrence.BENCHMARK,
        worker.BENCHMARK,
    )
}
"""What `python -m bench` offers."""

__all__ = ["BENCHMARKS", "Benchmark"]
