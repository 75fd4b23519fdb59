"""Records of which every task has some: specs, states, work, history, Progress. Compiled from their schemas.

Records that are rare are in records.py, commands in commands.py, reports in reports.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from tickstream.codec.avro import Schema
from tickstream.codec.compiled import read_whole, reader, writer
from tickstream.model import (
    NO_EXTRAS,
    Extras,
    History,
    InputPosition,
    Outcome,
    Progress,
    RecentCommand,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    VerdictKind,
    Work,
)

_SPEC: Final = Schema("TaskSpec")
_STATE: Final = Schema("TaskState")
_RUN: Final = Schema("RunState")
_RECENT: Final = Schema("RecentCommand")
_EXTRAS: Final = Schema("TaskExtras")
_POSITION: Final = Schema("InputPosition")
_PROGRESS: Final = Schema("Progress")
_WORK: Final = Schema("Work")
_HISTORY: Final = Schema("History")

_REV: Final = "Rev(rev_offset, rev_item)"
_OF_REV: Final = {"rev_offset": "r.rev.offset", "rev_item": "r.rev.item"}


def _fields(*names: str) -> str:
    """Arguments of a record's class, in its order."""
    return ", ".join(_REV if name == "rev" else name for name in names)


# --------------------------------------------------------------------------- TaskSpec

_spec_at: Final = reader(
    _SPEC,
    f"TaskSpec({_REV}, command, answer)",
    {"TaskSpec": TaskSpec, "Rev": Rev, "VerdictKind": VerdictKind},
)
encode_spec: Final = cast(Callable[[TaskSpec], bytes], writer(_SPEC, {"VerdictKind": VerdictKind}, _OF_REV))
"""A TaskSpec in single-object encoding."""


def decode_spec(value: bytes) -> TaskSpec:
    """What `encode_spec` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(TaskSpec, read_whole(_SPEC, _spec_at, value))


# --------------------------------------------------------------------------- TaskState

_state_at: Final = reader(
    _STATE,
    f"TaskState({_REV}, next_occurrence_ts, last_occurrence_ts, runs, outcome, ended_ms, recent, forget_ms,"
    " NO_EXTRAS if extras is None else extras)",
    {
        "TaskState": TaskState,
        "Rev": Rev,
        "NO_EXTRAS": NO_EXTRAS,
        "Outcome": Outcome,
        "RunState": reader(
            _RUN,
            f"RunState({_fields(*RunState._fields)})",
            {"RunState": RunState, "Rev": Rev},
        ),
        "RecentCommand": reader(
            _RECENT,
            "RecentCommand(command_id, kind, detail, found)",
            {"RecentCommand": RecentCommand, "VerdictKind": VerdictKind},
        ),
        "TaskExtras": reader(_EXTRAS, f"Extras({_fields(*Extras._fields)})", {"Extras": Extras}),
    },
)
encode_state: Final = cast(
    Callable[[TaskState], bytes],
    writer(
        _STATE,
        {
            "NO_EXTRAS": NO_EXTRAS,
            "Outcome": Outcome,
            "RunState": writer(_RUN, {}, _OF_REV, header=False),
            "RecentCommand": writer(_RECENT, {"VerdictKind": VerdictKind}, {}, header=False),
            "TaskExtras": writer(_EXTRAS, {}, {}, header=False),
        },
        {**_OF_REV, "extras": "None if r.extras is NO_EXTRAS else r.extras"},
    ),
)
"""A TaskState in single-object encoding."""


def decode_state(value: bytes) -> TaskState:
    """What `encode_state` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(TaskState, read_whole(_STATE, _state_at, value))


# --------------------------------------------------------------------------- Progress

_progress_at: Final = reader(
    _PROGRESS,
    f"Progress({_fields(*Progress._fields)})",
    {
        "Progress": Progress,
        "InputPosition": reader(
            _POSITION, f"InputPosition({_fields(*InputPosition._fields)})", {"InputPosition": InputPosition}
        ),
    },
)
encode_progress: Final = cast(
    Callable[[Progress], bytes],
    writer(_PROGRESS, {"InputPosition": writer(_POSITION, {}, {}, header=False)}, {}),
)
"""A Progress in single-object encoding."""


def decode_progress(value: bytes) -> Progress:
    """What `encode_progress` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(Progress, read_whole(_PROGRESS, _progress_at, value))


# --------------------------------------------------------------------------- work and history

_work_at: Final = reader(
    _WORK,
    f"Work({_fields(*Work._fields)})",
    {"Work": Work, "Rev": Rev},
)
encode_work: Final = cast(Callable[[Work], bytes], writer(_WORK, {}, _OF_REV))
"""A Work in single-object encoding."""


def decode_work(value: bytes | None) -> Work:
    """What `encode_work` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(Work, read_whole(_WORK, _work_at, value))


_history_at: Final = reader(
    _HISTORY,
    f"History({_fields(*History._fields)})",
    {"History": History, "Rev": Rev, "Outcome": Outcome},
)
encode_history: Final = cast(Callable[[History], bytes], writer(_HISTORY, {"Outcome": Outcome}, _OF_REV))
"""A History in single-object encoding."""


def decode_history(value: bytes | None) -> History:
    """What `encode_history` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(History, read_whole(_HISTORY, _history_at, value))
