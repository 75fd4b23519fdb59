"""Every benchmark by name."""

from __future__ import annotations

from typing import Final

from bench import (
    audit,
    client,
    conflicts,
    floor,
    idle,
    imports,
    ingest,
    lateness,
    live,
    pipeline,
    query,
    recurrence,
    restore,
    scale,
    spike,
    staleness,
    takeover,
    tradeoffs,
    worker,
    year,
)
from bench.harness import Benchmark

BENCHMARKS: Final = {
    b.name: b
    for b in (
        floor.BENCHMARK,
        client.BENCHMARK,
        ingest.BENCHMARK,
        imports.BENCHMARK,
        spike.DISPATCH_BENCHMARK,
        spike.SPIKE_BENCHMARK,
        lateness.BENCHMARK,
        restore.BENCHMARK,
        scale.BENCHMARK,
        idle.BENCHMARK,
        tradeoffs.BENCHMARK,
        takeover.BENCHMARK,
        recurrence.BENCHMARK,
        conflicts.BENCHMARK,
        audit.BENCHMARK,
        worker.BENCHMARK,
        year.BENCHMARK,
        live.BENCHMARK,
        query.BENCHMARK,
        pipeline.BENCHMARK,
        staleness.BENCHMARK,
    )
}
"""What `python -m bench` offers."""

__all__ = ["BENCHMARKS", "Benchmark"]
