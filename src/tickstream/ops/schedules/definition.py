"""What defines a task, apart from when it was asked for: two that are equal need no command. Pure."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from tickstream.clock import iso_utc
from tickstream.codec import decode_body
from tickstream.ingest.request import Requests, schedule_command
from tickstream.model import (
    DEFAULT_TERMS,
    NEVER,
    OWNER_LABEL,
    VERSION_HEADER,
    Command,
    Recurrence,
    RecurrenceKind,
    RunTerms,
)
from tickstream.worker.declared import Declaration

_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


class Definition(NamedTuple):
    """A task as a command defines it."""

    handler: str
    payload: bytes
    headers: dict[str, str]
    labels: dict[str, str]
    """Without the owner's."""
    queue: str
    when: int
    lead_ms: int
    limit_key: str
    terms: RunTerms
    recurrence: Recurrence | None
    event: bytes


def owner_of(command: Command) -> str:
    """In whose name the task was applied; empty: by hand."""
    return decode_body(command.body).labels.get(OWNER_LABEL, "")


def definition_of(command: Command) -> Definition:
    """What a SCHEDULE command defines. Raises CodecError."""
    body, options = decode_body(command.body), command.options
    return Definition(
        body.handler,
        body.payload,
        body.headers,
        {name: text for name, text in body.labels.items() if name != OWNER_LABEL},
        command.queue,
        command.when,
        options.lead_ms,
        options.limit_key,
        options.terms or DEFAULT_TERMS,
        options.recurrence,
        options.event,
    )


def command_of(declared: Declaration, owner: str, requests: Requests) -> Command:
    """The declaration as a command, without an id yet. Raises InvalidInput."""
    item = declared.item
    labels = dict(sorted((item.labels or {}).items())) | {OWNER_LABEL: owner}
    return schedule_command(bytes(16), requests.checked(*item._replace(labels=labels)))


def fields_of(definition: Definition) -> dict[str, str]:
    """A definition in words, by the names of `schedule`'s arguments; what is not said is not in it.

    Different definitions differ in at least one field.
    """
    terms = definition.terms
    fields = {
        **({} if definition.recurrence is None else _recurrence(definition.recurrence)),
        "handler": definition.handler,
        "payload": _text(definition.payload),
        "queue": definition.queue,
        "limit_key": definition.limit_key,
        "lease": duration(terms.lease_ms),
        "timeout": duration(terms.timeout_ms),
        "attempts": str(terms.attempts),
        "backoff": duration(terms.backoff_ms),
        "backoff_cap": duration(terms.backoff_cap_ms),
        "run_at": "" if definition.when == NEVER else _instant(definition.when),
        "lead": duration(definition.lead_ms) if definition.lead_ms else "",
        "event": _text(definition.event),
    }
    fields |= {f"label {name}": _word(text) for name, text in definition.labels.items()}
    fields |= {
        "version" if name == VERSION_HEADER else f"header {name}": _word(text)
        for name, text in definition.headers.items()
    }
    return {name: text for name, text in fields.items() if text}


def _recurrence(recurrence: Recurrence) -> dict[str, str]:
    rule = duration(recurrence.interval_ms) if recurrence.kind is RecurrenceKind.EVERY else recurrence.rule
    return {
        recurrence.kind.value.lower(): _word(rule),
        "zone": recurrence.zone or "UTC",
        "start": recurrence.start or (_instant(recurrence.start_ms) if recurrence.start_ms else ""),
        "end": "" if recurrence.end_ms == NEVER else _instant(recurrence.end_ms),
        "rdate": ", ".join(recurrence.rdate),
        "exdate": ", ".join(recurrence.exdate),
        "gap": recurrence.gap,
        "fold": recurrence.fold,
        "subday": recurrence.subday,
        "misfire": recurrence.misfire.value.lower(),
        "grace": duration(recurrence.grace_ms),
        "overlap": recurrence.overlap.value.lower(),
        "jitter": duration(recurrence.jitter_ms),
    }


def duration(ms: int) -> str:
    """`90s`, `15m`, `2h`: what a command line takes for it."""
    if ms == 0:
        return "0s"
    return next((f"{ms // size}{unit}" for unit, size in _UNITS_MS if ms % size == 0), f"{ms}ms")


def _instant(ms: int) -> str:
    return iso_utc(ms).replace(".000Z", "Z")


def _text(content: bytes) -> str:
    try:
        return _word(content.decode()) if content else ""
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def _word(text: str) -> str:
    """The text, in quotes where it would read as something else."""
    return json.dumps(text) if not text or text.startswith(('"', "0x")) else text
