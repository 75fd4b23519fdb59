"""Runs every mutant until the auditor names its promise: `make sim-mutants`.

Last line: `N passed, M failed`; a mutant fails when it is not caught within the seeds, and the
unchanged code when one of the very same seeds breaks a promise.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from multiprocessing import get_context
from typing import Final, NamedTuple

from tests.sim import decoding, lane_mutants, promise_mutants, task_mutants
from tests.sim.mutation import MUTANTS, Mutant
from tests.sim.run import COLLECT, carry_out, failing, quiet
from tickstream.testing.sim import make_plan

SEEDS: Final = 500
REGISTERED: Final = (lane_mutants, task_mutants, promise_mutants)
"""Where they are."""


class Caught(NamedTuple):
    """How a mutant fared."""

    name: str
    promise: str
    histories: int
    """Until its promise was named; 0: never."""
    crashed: int
    """Histories that ended by an error of the program, which counts for nothing."""
    also: tuple[str, ...]
    """Other promises named on the way."""
    shows: str
    """What the auditor said."""


def try_mutant(fault: Mutant, seeds: int) -> Caught:
    """Histories with the fault in the code, until it is caught."""
    crashed = 0
    also: set[str] = set()
    for seed in range(seeds):
        with fault.apply():  # a patch that does not fit the code is an error of its own
            try:
                verdict = carry_out(make_plan(seed))
            except Exception:  # noqa: BLE001 - whatever a fault leads to: a crash is not a catch
                crashed += 1
                continue
        found = verdict.violations
        verdict.result.release()
        said = next((v.what for v in found if v.promise == fault.promise), "")
        also |= {v.promise for v in found} - {fault.promise}
        if said:
            return Caught(fault.name, fault.promise, seed + 1, crashed, tuple(sorted(also)), said)
        if seed % COLLECT == 0:
            gc.collect()
    return Caught(fault.name, fault.promise, 0, crashed, tuple(sorted(also)), "not caught")


def _job(task: tuple[int, int]) -> Caught:
    quiet()
    number, seeds = task
    with decoding.shared():
        return try_mutant(MUTANTS[number], seeds)


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 when something was not caught, or the code itself failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutant_run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at most, for each mutant")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes; as many as there are cores"
    )
    parser.add_argument("--only", default="", help="parts of mutants' names, with commas")
    asked = parser.parse_args(arguments)
    quiet()
    gc.disable()
    tasks = [
        (n, asked.seeds)
        for n, m in enumerate(MUTANTS)
        if any(part in m.name for part in asked.only.split(","))
    ]
    print(f"{'promise':<8}{'caught after':>13}  mutant")
    missed = longest = 0
    began = time.perf_counter()
    with get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for caught in pool.imap(_job, tasks, chunksize=1):
            longest = max(longest, caught.histories or asked.seeds)
            missed += not caught.histories
            after = f"{caught.histories}" if caught.histories else "never"
            extra = f" (also {', '.join(caught.also)})" if caught.also else ""
            crashed = f" ({caught.crashed} crashed)" if caught.crashed else ""
            print(
                f"{caught.promise:<8}{after:>13}  {caught.name}{extra}{crashed}\n{'':23}{caught.shows[:110]}"
            )
            sys.stdout.flush()
    broken = list(failing(0, longest, asked.jobs))
    for failure in broken:
        print(f"unchanged code, seed {failure.seed}: {failure.found[0].promise}: {failure.found[0].what}")
    print(f"the unchanged code on the same {longest} seeds: {len(broken)} broke a promise")
    print(f"{time.perf_counter() - began:.0f} s, {asked.jobs} at a time")
    print(f"{len(tasks) - missed + (not broken)} passed, {missed + bool(broken)} failed")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
