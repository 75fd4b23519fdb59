"""The checks of `tickstream audit` over a simulated log: the same code that judges a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.evidence import Evidence
from tickstream.errors import CodecError
from tickstream.model import NEVER, Receipt
from tickstream.ops.audit import FAULTS
from tickstream.ops.audit.facts import Acked
from tickstream.ops.audit.fold import Evidence as Folded
from tickstream.ops.audit.journal import Journal
from tickstream.ops.audit.verdict import judge
from tickstream.testing.clock import START_MS
from tickstream.testing.sim import Result
from tickstream.testing.sim.plan import Kind
from tickstream.testing.sim.world import MS
from tickstream.topics import Layout

PROMISES = {finding: promise for finding, (promise, _) in FAULTS.items()}


def findings(result: Result, evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """(promise, what, task_id) of every finding."""
    folded = Folded(
        evidence.names, Layout(result.plan.buckets, result.plan.lanes, 0, frozenset({"default"})), {}
    )
    names = evidence.names
    for (topic, number), partition in result.broker.partitions.items():
        if topic == names.verdicts:
            continue
        for record in partition.archive[: partition.stable]:
            if record.control or record.aborted:
                continue
            try:
                folded.add(topic, number, record.offset, record.at_ms, record.key, record.value)
            except CodecError:
                if topic != names.dead_letter:
                    raise
                # Work given up lies there too, and is no batch of commands.
    now_ms = START_MS + result.end_us // MS
    report = judge(folded, _journal(result), as_of_ms=now_ms, grace_ms=0, session_ms=2_000)
    asked = {(s.command.task_id, s.command.when) for sent in evidence.commands.values() for s in sent}
    for finding, promise in PROMISES.items():
        if finding == "early" and _clocks_are_wrong(result):
            continue  # it holds workers' clocks against dispatchers'
        for case in report.examples.get(finding, ()):
            if finding == "early" and (case.task_id, case.occurrence_ts) not in asked:
                continue  # triggered: at the next free ms, which may lie some ms ahead
            yield promise, f"{finding}: {case.task_id} at {case.occurrence_ts}: {case.what}", case.task_id


def _clocks_are_wrong(result: Result) -> bool:
    plan = result.plan
    return any(plan.offsets_ms) or any(fault.kind is Kind.STEP for fault in plan.faults)


def _journal(result: Result) -> Journal:
    acked = []
    for asked in result.journal:
        when = asked.command.when
        verdict = asked.verdicts[0].kind if asked.verdicts else None
        acked += [
            Acked(
                asked.command.task_id,
                when if when >= 0 else NEVER,
                Receipt(asked.bucket, offset, item),
                verdict,
            )
            for offset, item in asked.acked
            if not asked.command.verb.of_queue
        ]
    return Journal(tuple(acked))
