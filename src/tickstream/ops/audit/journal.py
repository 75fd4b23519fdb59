"""What a client kept of its own run: the receipts of its acked commands, and whom it killed when.

One JSON object a line. Only parsing; where the lines come from is reader.py's, and only model may enter here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tickstream.model import NEVER, Receipt, VerdictKind
from tickstream.ops.audit.facts import Acked


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
    """The whole journal in `lines`. Raises ValueError that names the line."""
    acked: list[Acked] = []
    kills: list[Kill] = []
    for entry in entries(lines):
        if isinstance(entry, Kill):
            kills.append(entry)
        else:
            acked.append(entry)
    return Journal(tuple(acked), tuple(kills))


def entries(lines: Iterable[str]) -> Iterator[Acked | Kill]:
    """What `lines` say: objects of type `schedule`, `cancel` or `kill`; empty lines are skipped.

    Raises ValueError that names the line.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            match entry["type"]:
                case "schedule":
                    found: Acked | Kill = _acked(entry, int(entry["run_at_ms"]))
                case "cancel":
                    found = _acked(entry, NEVER)
                case "kill":
                    found = Kill(entry["role"], int(entry["at_ms"]))
                case other:
                    raise ValueError(f"type {other!r} is none of schedule, cancel, kill")
        except KeyError as error:
            raise ValueError(f"line {number}: {error} is missing") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number}: {error}") from error
        yield found


def _acked(entry: dict[str, Any], run_at_ms: int) -> Acked:
    verdict = entry.get("verdict")
    return Acked(
        entry["task_id"],
        run_at_ms,
        Receipt.parse(entry["receipt"]),
        None if verdict is None else VerdictKind(verdict),
    )
