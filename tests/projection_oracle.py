"""What the projection must say, by a plain dict fold of a bucket's log: the codec, the model and,
for rules, the recurrence package; nothing of the projection.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from tickstream import codec
from tickstream.model import NEVER
from tickstream.recurrence.stored import occurrences_of


def plain_fold(
    timers: list[tuple[bytes, bytes | None]], history: list[bytes], until_ms: int = 0
) -> list[dict[str, Any]]:
    """The rows of a bucket whose logs hold exactly this: dicts, no cleverness.

    Of recurring tasks, every occurrence to come before `until_ms`, by the rule.
    """
    specs: dict[str, Any] = {}
    states: dict[str, Any] = {}
    columns: dict[tuple[str, Any], dict[str, Any]] = {}
    for key, value in timers:
        kind, task_id = codec.split_timers_key(key)
        if kind == codec.SPEC:
            specs.pop(task_id, None)
            if value is not None:
                spec = codec.decode_spec(value)
                command = codec.decode_command(spec.command)
                body = codec.decode_body(command.body)
                specs[task_id] = spec
                columns[task_id, spec.rev] = {
                    "queue": command.queue,
                    "handler": body.handler,
                    "labels": body.labels,
                }
        elif kind == codec.STATE:
            states.pop(task_id, None)
            if value is not None:
                states[task_id] = codec.decode_state(value)

    candidates: dict[tuple[str, int], list[tuple[Any, dict[str, Any]]]] = {}

    def add(task_id: str, occurrence: int, rev: Any, rank: int, **fields: Any) -> None:
        row = {
            "task_id": task_id,
            "occurrence_ts": occurrence,
            "attempt": 0,
            "worker": "",
            "decided_ms": None,
            "fetched_ms": None,
            "started_ms": None,
            "ended_ms": None,
            "retry_at_ms": None,
            "error": "",
            "rev": f"{rev.offset}:{rev.item}",
            **columns[task_id, rev],
            **fields,
        }
        candidates.setdefault((task_id, occurrence), []).append(((rev, rank), row))

    for task_id, state in states.items():
        spec = specs.get(task_id)
        if spec is not None and spec.rev == state.rev and state.next_occurrence_ts != NEVER:
            word = "paused" if state.extras.paused else "scheduled"
            add(task_id, state.next_occurrence_ts, state.rev, 0, state=word)
            recurrence = codec.decode_command(spec.command).options.recurrence
            if recurrence is not None:
                pointers = occurrences_of(recurrence, state.extras.last_local).after(state.next_occurrence_ts)
                for pointer in takewhile(lambda p: p.next_occurrence_ts < until_ms, pointers):
                    add(task_id, pointer.next_occurrence_ts, state.rev, 0, state=word)
        for run in state.runs:
            fields = {
                "attempt": run.attempt,
                "worker": run.worker,
                "decided_ms": run.decided_ms,
                "started_ms": None if run.started_ms == NEVER else run.started_ms,
                "retry_at_ms": None if run.retry_at_ms == NEVER else run.retry_at_ms,
            }
            word = "retrying" if run.retry_at_ms != NEVER else "running" if run.holder else "dispatched"
            add(task_id, run.occurrence_ts, run.rev, 1, state=word, **fields)
    for value in history:
        h = codec.decode_history(value)
        if h.outcome.value in ("ATTEMPT_FAILED", "LEASE_EXPIRED"):
            continue
        fields = {
            name: None if (ms := getattr(h, name)) == NEVER else ms
            for name in ("decided_ms", "fetched_ms", "started_ms", "ended_ms")
        }
        handler = h.handler or columns[h.task_id, h.rev]["handler"]
        add(
            h.task_id,
            h.occurrence_ts,
            h.rev,
            2 + h.number,
            state=h.outcome.value.lower(),
            queue=h.queue,
            handler=handler,
            attempt=h.attempt,
            worker=h.worker,
            error=h.error,
            **fields,
        )
    return [max(rows, key=lambda ranked: ranked[0])[1] for rows in candidates.values()]


def plain_attempts(history: list[bytes]) -> dict[tuple[str, int], list[tuple[int, str, str, str]]]:
    """By (task_id, occurrence_ts), what each attempt of it came to: (attempt, state, error, result)."""
    attempts: dict[tuple[str, int], list[tuple[int, str, str, str]]] = {}
    for value in history:
        h = codec.decode_history(value)
        told = (h.attempt, h.outcome.value.lower(), h.error, h.result.decode())
        attempts.setdefault((h.task_id, h.occurrence_ts), []).append(told)
    return attempts
