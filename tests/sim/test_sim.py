"""Histories that break no promise: a fixed set of seeds, and a fresh one every time."""

from __future__ import annotations

import random

import pytest

from tests.sim.run import explain, try_seeds

FIXED = 100
FRESH = 60
PARTS = 4
"""So that several test processes share them."""


def _hold(seeds: range) -> None:
    failures = try_seeds(seeds)
    assert not failures, "\n".join(
        [
            *(f"seed {f.seed}: {v.promise}: {v.what}" for f in failures for v in f.found),
            explain(failures[0].seed),
        ]
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_seeds_that_never_change(part: int) -> None:
    size = FIXED // PARTS
    _hold(range(part * size, (part + 1) * size))


@pytest.mark.parametrize("part", range(2))
def test_fresh_seeds(part: int) -> None:
    first = random.SystemRandom().randrange(1_000_000, 2**31)
    _hold(range(first, first + FRESH // 2))
