"""The words of tickstream as values: ids, buckets, commands, tasks, runs, outcomes, verdicts.

No I/O, no clock, no wire bytes (codec/) and no topic names (topics.py) may enter here.
All times are milliseconds since the Unix epoch, UTC; `NEVER` (-1) stands for "no such time".

Values that exist once per record are NamedTuples: immutable like a frozen dataclass, at a
third of its price to make.
"""

from tickstream.model.answers import RECENT_COMMANDS, RecentCommand, VerdictKind
from tickstream.model.commands import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TERMS,
    MOST_LEAD_MS,
    VERSION_HEADER,
    Body,
    BoundCall,
    Command,
    IfExists,
    Options,
    Receipt,
    Rev,
    RunTerms,
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
    NO_RETRY,
    DeadReason,
    History,
    Report,
    ReportKind,
    Signal,
    SignalKind,
    Verdict,
    Work,
)
from tickstream.model.queues import EVERY_QUEUE, NO_LIMIT, QueueLimits, QueueState
from tickstream.model.recurring import Misfire, Overlap, Recurrence, RecurrenceKind
from tickstream.model.retry import DEFAULT_RETRY, Never, Retry, overridden
from tickstream.model.tasks import (
    NO_EXTRAS,
    Claim,
    DueEntry,
    DueKind,
    Extras,
    InputPosition,
    Outcome,
    Phase,
    Progress,
    RunState,
    TaskSpec,
    TaskState,
)
from tickstream.model.times import NEVER

__all__ = [
    "DEFAULT_OPTIONS",
    "DEFAULT_QUEUE",
    "DEFAULT_RETRY",
    "DEFAULT_TERMS",
    "EVERY_QUEUE",
    "MAX_TASK_ID_BYTES",
    "MOST_LEAD_MS",
    "NEVER",
    "NO_EXTRAS",
    "NO_LIMIT",
    "NO_RETRY",
    "RECENT_COMMANDS",
    "VERSION_HEADER",
    "Body",
    "BoundCall",
    "Claim",
    "Command",
    "DeadReason",
    "DueEntry",
    "DueKind",
    "Extras",
    "History",
    "IfExists",
    "InputPosition",
    "Misfire",
    "Never",
    "Options",
    "Outcome",
    "Overlap",
    "Phase",
    "Progress",
    "QueueLimits",
    "QueueState",
    "Receipt",
    "RecentCommand",
    "Recurrence",
    "RecurrenceKind",
    "Report",
    "ReportKind",
    "Retry",
    "Rev",
    "RunState",
    "RunTerms",
    "Signal",
    "SignalKind",
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
    "overridden",
]
