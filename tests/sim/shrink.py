"""Makes a failing history smaller, and writes it down for a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Final, TypeVar

from tests.sim.auditor import Violation
from tickstream.testing.sim import Plan, Result
from tickstream.testing.sim.faults import Rates

TRIES: Final = 400
LINES: Final = 120
"""Of a history, at most: its end is what matters."""

T = TypeVar("T")


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The smallest plan found that still fails: fewer asks, faults, kinds of trouble, processes."""
    left = TRIES
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(plan):
            left -= 1
            if left < 0:
                break
            if fails(smaller):
                plan, progress = smaller, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    for faults in _parts(plan.faults):
        yield replace(plan, faults=faults)
    for asks in _parts(plan.asks):
        yield replace(plan, asks=asks)
    for rate in fields(Rates):
        if getattr(plan.rates, rate.name):
            yield replace(plan, rates=plan.rates.without(rate.name))
    if plan.failing:
        yield replace(plan, failing=0.0)
    if plan.hanging:
        yield replace(plan, hanging=0.0)
    if any(plan.offsets_ms):
        yield replace(plan, offsets_ms=())
    if any(drift != 1 for drift in plan.drifts):
        yield replace(plan, drifts=())
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    if plan.dispatchers > 1:
        yield replace(plan, dispatchers=plan.dispatchers - 1)


def _parts(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """`items` without a half, a quarter, … one of them."""
    size = len(items) // 2
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2
    if len(items) == 1:
        yield ()


def describe(plan: Plan, result: Result, violations: Sequence[Violation]) -> str:
    """The history in words: who did what when, and which promise it broke."""
    lines = [
        (
            f"seed {plan.seed}, shrunk: {plan.buckets} buckets, {plan.lanes} lanes, {plan.dispatchers} dispatchers, "
            f"{plan.workers} workers, healed at {plan.heal_us / 1e6:.3f} s, stubs kept {plan.retention_ms} ms"
        ),
        *(
            f"  fault {f.at_us / 1e6:9.6f}  {f.kind.value} {f.whom} after {f.points} points, {f.amount}"
            for f in plan.faults
        ),
    ]
    trace = [line for line in result.trace if not line.endswith(("reads", "reports"))]
    if len(trace) > LINES:
        lines.append(f"  … {len(trace) - LINES} lines …")
    lines += trace[-LINES:]
    lines += [f"{v.promise}: {v.what}" for v in violations]
    return "\n".join(lines)
