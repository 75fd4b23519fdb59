"""What an audit found, as a value and in words.

Nothing is counted here; nothing but model may enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from tickstream.model import NEVER

EXCLUDED_LIMIT: Final = 0.05
"""More than this share of occurrences in exclusion windows makes the percentiles worthless."""
FAULTS: Final = {
    "lost": ("G1", "accepted, due, and never dispatched; or left without the attempt that was due"),
    "duplicates": ("G4", "work committed once too often"),
    "unasked": ("G4", "work that no command asked for, or an attempt without the one before it"),
    "unreasoned_skips": ("G4", "occurrences skipped without a reason, or skipped and dispatched"),
    "off_rule": ("G4", "dispatched or skipped at instants that the task's rule does not name"),
    "early": ("G3", "dispatched or started before the instant"),
    "late": ("G2", "dispatched or started later than the bound"),
    "out_of_order": ("G2", "dispatched after a definition that was made later"),
    "cancelled_yet_ran": ("G2", "answered `cancelled`, and work all the same"),
    "double_outcomes": ("G5", "outcomes recorded once too often"),
    "missing_outcomes": ("G5", "reported as succeeded, and no outcome recorded"),
    "after_the_end": ("G5", "attempts dispatched after their occurrence had ended"),
}
"""Finding → the promise it breaks (docs/reliability.md), and what it is; one is enough to fail an audit."""


class Example(NamedTuple):
    """One case of a finding, and the records to look at."""

    task_id: str
    occurrence_ts: int
    """NEVER where the case concerns no single occurrence."""
    what: str
    records: tuple[str, ...]
    """Each as `topic[partition]@offset`, with `:item` inside a message of commands."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit; counts unless a name says otherwise.

    Every Schedule in the log has one fate: `scheduled` = dispatched + cancelled + superseded +
    waiting + parked + unchecked + those lost; `refused` ones (rejected, too late, re-sent) and those `set_aside`
    in `dead-letter` stand beside them.
    """

    as_of_ms: int
    grace_ms: int
    session_ms: int
    late_ms: int | None
    """The bound beyond which something is late; None: nothing is."""
    scheduled: int
    dispatched: int
    cancelled: int
    superseded: int
    waiting: int
    refused: int
    set_aside: int
    parked: int
    unchecked: int
    ran: int
    """Occurrences of which a worker reported a run."""
    lost: int
    duplicates: int
    unasked: int
    unreasoned_skips: int
    off_rule: int
    early: int
    late: int
    out_of_order: int
    cancelled_yet_ran: int
    double_outcomes: int
    missing_outcomes: int
    after_the_end: int
    redelivered: int
    """Runs beyond the first of one attempt: at-least-once at work, no fault."""
    retried: int
    """Attempts dispatched beyond the first of an occurrence, whatever ended the one before: no fault."""
    expired: int
    """Attempts whose lease expired; of an occurrence's last attempt that is `dead`, and not counted here."""
    lateness_p50_ms: int | None
    """First start of an occurrence minus its instant, without those due inside an exclusion window
    (lateness.py); nearest rank; None where nothing counts."""
    lateness_p99_ms: int | None
    lateness_max_ms: int | None
    """The same with nothing left out."""
    excluded: float
    """Share of the occurrences that ran which p50 and p99 leave out."""
    excluded_count: int
    takeover_max_ms: int | None
    """Longest from the kill of a dispatcher to the first commit on a lane it had; None: none moved."""
    examples: Mapping[str, tuple[Example, ...]]
    """Finding → its first cases."""
    records: Mapping[str, int]
    """Topic → records read."""
    unreadable: Mapping[str, int]
    """Topic → messages of clients and workers that are no commands or reports; not judged."""

    @property
    def ok(self) -> bool:
        """Whether no promise was found broken."""
        return not any(getattr(self, fault) for fault in FAULTS)

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        flat = {f.name: getattr(self, f.name) for f in fields(self)}
        examples = {finding: [case._asdict() for case in cases] for finding, cases in self.examples.items()}
        return {
            "ok": self.ok,
            **flat,
            "excluded": round(self.excluded, 6),
            "examples": examples,
            "records": dict(self.records),
            "unreadable": dict(self.unreadable),
        }


def render(report: Report) -> str:
    """The report for a person: counts, faults with examples, lateness, and the verdict as the last line."""
    lines = [f"{sum(report.records.values()):>10,}  records read from {len(report.records)} topics"]
    lines += [f"{getattr(report, name):>10,}  {text}" for name, text in _ACCOUNT if _worth(report, name)]
    for fault, (promise, text) in FAULTS.items():
        if fault == "late" and report.late_ms is None:
            continue
        bound = f" of {report.late_ms:,} ms" if fault == "late" else ""
        lines.append(f"{getattr(report, fault):>10,}  {promise} {fault}: {text}{bound}")
        lines += map(_example, report.examples.get(fault, ()))
    lines.append(f"{report.redelivered:>10,}  redelivered: started again before a report (no fault)")
    lines += [
        f"{getattr(report, name):>10,}  {name}: {text} (no fault)"
        for name, text in _RETRIES.items()
        if getattr(report, name)
    ]
    lines += [f"{count:>10,}  unreadable in {topic}" for topic, count in report.unreadable.items()]
    lines += _lateness(report)
    faults = ", ".join(f"{fault} {getattr(report, fault)}" for fault in FAULTS if getattr(report, fault))
    lines.append(f"audit: {'ok' if report.ok else faults}")
    return "\n".join(lines)


_ACCOUNT: Final = (
    ("scheduled", "scheduled, of which"),
    ("dispatched", "  dispatched"),
    ("cancelled", "  cancelled"),
    ("superseded", "  superseded by a later command"),
    ("waiting", "  not due yet"),
    ("parked", "  due, and paused, held at a gate, or faulted"),
    ("unchecked", "  unchecked: the logs no longer tell, or the promises leave it open"),
    ("refused", "refused or re-sent"),
    ("set_aside", "set aside in dead-letter, with an alarm"),
    ("ran", "occurrences ran"),
)


_RETRIES: Final = {
    "retried": "further attempts",
    "expired": "attempts whose worker was not heard of in time",
}


def _worth(report: Report, name: str) -> bool:
    return name in ("scheduled", "dispatched", "ran") or getattr(report, name) > 0


def _example(example: Example) -> str:
    instant = "" if example.occurrence_ts == NEVER else f" at {example.occurrence_ts}"
    return f"{'':12}{example.task_id}{instant}: {example.what}; see {', '.join(example.records) or 'nothing'}"


def _lateness(report: Report) -> list[str]:
    if report.lateness_max_ms is None:
        return []
    p50, p99 = (
        "–" if ms is None else f"{ms:,} ms" for ms in (report.lateness_p50_ms, report.lateness_p99_ms)
    )
    lines = [f"lateness (due → started): p50 {p50}, p99 {p99}, max {report.lateness_max_ms:,} ms"]
    if report.excluded_count:
        too_many = f", more than {EXCLUDED_LIMIT:.0%}" if report.excluded > EXCLUDED_LIMIT else ""
        share = f"{report.excluded:.1%}{too_many}"
        lines.append(f"  p50 and p99 without {report.excluded_count:,} due during a take-over ({share})")
    if report.takeover_max_ms is not None:
        lines.append(f"longest take-over after a kill: {report.takeover_max_ms:,} ms")
    return lines
