"""What a client kept of its own run: the receipts of its acked commands, and whom it killed when.

One JSON object a line. Only parsing; where the lines come from is reader.py's, and only model may enter here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tickstream.model import NEVER, Receipt, VerdictKind


class Acked(NamedTuple):
    """A command that the broker acknowledged to the client."""

    task_id: str
    run_at_ms: int
    """NEVER for a Cancel."""
    receipt: Receipt
    verdict: VerdictKind | None
    """The answer, where the client waited for it."""


class Kill(NamedTuple):
    """A process that was killed on purpose."""

    role: str
    """`dispatcher` or `worker`."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one run."""

    acked: tuple[Acked, ...] = ()
    kills: tuple[Kill, ...] = ()

    @property
    def dispatcher_kills_ms(self) -> tuple[int, ...]:
        """When dispatchers were killed, ascending."""
        return tuple(sorted(k.at_ms for k in self.kills if k.role == "dispatcher"))


def parse_journal(lines: Iterable[str]) -> Journal:
    """The journal in `lines`: objects of type `schedule`, `cancel` or `kill`; empty lines are skipped.

    Raises ValueError that names the line.
    """
    acked: list[Acked] = []
    kills: list[Kill] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            match entry["type"]:
                case "schedule":
                    acked.append(_acked(entry, int(entry["run_at_ms"])))
                case "cancel":
                    acked.append(_acked(entry, NEVER))
                case "kill":
                    kills.append(Kill(entry["role"], int(entry["at_ms"])))
                case other:
                    raise ValueError(f"type {other!r} is none of schedule, cancel, kill")
        except KeyError as error:
            raise ValueError(f"line {number}: {error} is missing") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number}: {error}") from error
    return Journal(tuple(acked), tuple(kills))


def _acked(entry: dict[str, Any], run_at_ms: int) -> Acked:
    verdict = entry.get("verdict")
    return Acked(
        entry["task_id"],
        run_at_ms,
        Receipt.parse(entry["receipt"]),
        None if verdict is None else VerdictKind(verdict),
    )
