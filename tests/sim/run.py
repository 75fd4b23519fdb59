"""Runs seeds and says which broke a promise: `make sim SEEDS=N`, or `python -m tests.sim.run --help`.

A seed that fails prints itself and the smallest history found that fails alike. Last line:
`N passed, M failed`.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple
from unittest.mock import patch

from tests.sim import decoding
from tests.sim.auditor import Violation, audit
from tests.sim.evidence import Evidence
from tests.sim.shrink import describe, shrink
from tickstream.dispatcher import takeover
from tickstream.testing.sim import Plan, Result, Simulation, make_plan
from tickstream.testing.sim.simulation import NAMES
from tickstream.testing.sim.worker import QUEUE

_CHUNK = 100
"""Seeds that one process runs before it is asked for its failures."""
COLLECT = 10
"""Seeds between two collections of garbage; a history that is released leaves little."""


@dataclass(slots=True)
class Verdict:
    """What became of one plan."""

    result: Result
    violations: list[Violation]

    @property
    def promises(self) -> frozenset[str]:
        """Those broken."""
        return frozenset(v.promise for v in self.violations)


class Failure(NamedTuple):
    """A seed and what was found, as text: it crosses processes."""

    seed: int
    found: tuple[Violation, ...]


def carry_out(plan: Plan, *, traced: bool = False) -> Verdict:
    """A history, and the auditor's word on it."""
    evidence = Evidence(NAMES, QUEUE, plan.buckets)
    # In some histories a bucket that is a few records behind is restored beside the lane's work.
    near = patch.object(takeover, "NEAR", 6 if plan.seed % 3 == 0 else takeover.NEAR)
    with near:
        return _carried_out(plan, evidence, traced=traced)


def _carried_out(plan: Plan, evidence: Evidence, *, traced: bool) -> Verdict:
    result = Simulation(plan, pending=evidence.pending, traced=traced).run()
    return Verdict(result, audit(result, evidence))


def try_seeds(seeds: Iterable[int]) -> list[Failure]:
    """Those of `seeds` that break a promise."""
    quiet()
    failures = []
    with decoding.shared():
        for seed in seeds:
            verdict = carry_out(make_plan(seed))
            if verdict.violations:
                failures.append(Failure(seed, tuple(verdict.violations)))
            verdict.result.release()
            if seed % COLLECT == 0:
                gc.collect()
    return failures


def quiet() -> None:
    """Handlers fail by the dice, thousands of times: nobody wants a line on each."""
    logging.getLogger("tickstream.worker").setLevel(logging.CRITICAL)


def explain(seed: int) -> str:
    """A failing seed as a short history: shrunk, step by step."""
    plan = make_plan(seed)
    broken = carry_out(plan).promises
    if not broken:
        return f"seed {seed} breaks nothing"

    def fails_alike(smaller: Plan) -> bool:
        return bool(broken & carry_out(smaller).promises)

    small = shrink(plan, fails_alike)
    verdict = carry_out(small, traced=True)
    return describe(small, verdict.result, verdict.violations)


def _chunks(first: int, count: int, jobs: int) -> Iterator[range]:
    size = max(1, min(_CHUNK, -(-count // jobs)))
    for start in range(first, first + count, size):
        yield range(start, min(start + size, first + count))


def _begin() -> None:
    gc.disable()
    gc.freeze()


def failing(first: int, count: int, jobs: int) -> Iterator[Failure]:
    """Those of `count` seeds from `first` on that break a promise, tried by so many processes."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork"), initializer=_begin) as pool:
        for failures in pool.map(try_seeds, _chunks(first, count, jobs)):
            yield from failures


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes; as many as there are cores"
    )
    parser.add_argument("--explain", type=int, default=1, help="how many failing seeds to shrink and show")
    parser.add_argument("--seed", type=int, help="only this one, shown in full")
    asked = parser.parse_args(arguments)
    quiet()
    if asked.seed is not None:
        print(explain(asked.seed))
        return 0
    gc.disable()
    began, failed = time.perf_counter(), 0
    for failure in failing(asked.first, asked.seeds, asked.jobs):
        failed += 1
        for violation in failure.found[:5]:
            print(f"seed {failure.seed}: {violation.promise}: {violation.what}")
        if failed <= asked.explain:
            print(explain(failure.seed))
        sys.stdout.flush()
    spent = time.perf_counter() - began
    print(f"{asked.seeds / spent:.1f} histories a second, {asked.jobs} at a time")
    print(f"{asked.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
