"""The words of tickstream as values: ids, buckets, commands, tasks, runs, outcomes, verdicts.

No I/O, no clock, no wire bytes (codec/) and no topic names (topics.py) may enter here.
All times are milliseconds since the Unix epoch, UTC; `NEVER` (-1) stands for "no such time".

Values that exist once per record are NamedTuples: immutable like a frozen dataclass, at a
third of its price to make.
"""

from tickstream.model.commands import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    NEVER,
    Body,
    BoundCall,
    Command,
    IfExists,
    Options,
    Receipt,
    Rev,
    Verb,
)
from tickstream.model.ids import (
    MAX_TASK_ID_BYTES,
    bucket_key,
    bucket_of,
    bucket_of_key,
    buckets_of_lane,
    check_task_id,
    idempotency_key,
    lane_of,
    murmur2,
)
from tickstream.model.outcomes import (
    DeadReason,
    History,
    Report,
    ReportKind,
    Verdict,
    Work,
)
from tickstream.model.tasks import (
    RECENT_COMMANDS,
    Claim,
    DueEntry,
    DueKind,
    InputPosition,
    Outcome,
    Phase,
    Progress,
    RecentCommand,
    RunState,
    TaskSpec,
    TaskState,
    VerdictKind,
)

__all__ = [
    "DEFAULT_OPTIONS",
    "DEFAULT_QUEUE",
    "MAX_TASK_ID_BYTES",
    "NEVER",
    "RECENT_COMMANDS",
    "Body",
    "BoundCall",
    "Claim",
    "Command",
    "DeadReason",
    "DueEntry",
    "DueKind",
    "History",
    "IfExists",
    "InputPosition",
    "Options",
    "Outcome",
    "Phase",
    "Progress",
    "Receipt",
    "RecentCommand",
    "Report",
    "ReportKind",
    "Rev",
    "RunState",
    "TaskSpec",
    "TaskState",
    "Verb",
    "Verdict",
    "VerdictKind",
    "Work",
    "bucket_key",
    "bucket_of",
    "bucket_of_key",
    "buckets_of_lane",
    "check_task_id",
    "idempotency_key",
    "lane_of",
    "murmur2",
]
