"""One fixed value, or more, of every record, whose bytes are kept in tests/golden/<version>/.

`python -m tests.golden_values` writes the files that are missing. It never changes one that is
there: bytes of a released schema stay readable for ever.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tickstream.codec import (
    CommandBatch,
    ReportBatch,
    VerdictBatch,
    encode_answer,
    encode_batch,
    encode_body,
    encode_claim,
    encode_command,
    encode_history,
    encode_progress,
    encode_queue,
    encode_reports,
    encode_signal,
    encode_spec,
    encode_state,
    encode_verdicts,
    encode_work,
)
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    NO_RETRY,
    Body,
    CalendarAnswer,
    Claim,
    Command,
    Extras,
    History,
    IfExists,
    InputPosition,
    Misfire,
    Options,
    Outcome,
    Overlap,
    Progress,
    QueueLimits,
    QueueState,
    Receipt,
    RecentCommand,
    Recurrence,
    RecurrenceKind,
    Report,
    ReportKind,
    Rev,
    RunState,
    RunTerms,
    Signal,
    SignalKind,
    TaskSpec,
    TaskState,
    Verb,
    Verdict,
    VerdictConflict,
    VerdictKind,
    Work,
)

GOLDEN = Path(__file__).parent / "golden" / "v1"

ID = bytes(range(16))
OTHER_ID = bytes(range(240, 256))
INSTANT = 1_796_058_000_000
"""2026-11-30T17:00:00Z."""

BODY = Body("mail", b"\x00\xffpayload", {"traceparent": "00-ab-cd-01"}, {"team": "größe"})
PLAIN = Command(ID, Verb.SCHEDULE, "mail:42", INSTANT, "default", DEFAULT_OPTIONS, encode_body(BODY))
MET = CalendarAnswer(
    "übung",
    "Europe/Berlin",
    (
        VerdictConflict(
            INSTANT,
            "standup",
            INSTANT - 900_000,
            INSTANT,
            INSTANT + 900_000,
            "2026-11-30T18:00:00",
            "2026-11-30T18:15:00",
            True,
        ),
    ),
    True,
    INSTANT + 34_560_000_000,
)
RARE = Command(
    OTHER_ID,
    Verb.SCHEDULE,
    "{room-7}übung",
    INSTANT + 1,
    "bulk",
    Options(IfExists.REJECT, allow_past=True, not_after=1207),
    b"",
)
TERMS = Command(
    ID,
    Verb.SCHEDULE,
    "mail:44",
    INSTANT,
    "default",
    Options(terms=RunTerms(4_000, 90_000, 3, 250, 30_000)),
    b"",
)
STOP = Command(OTHER_ID, Verb.CANCEL, "mail:44", NEVER, "", Options(running=True), b"")
WEEKLY = Command(
    ID,
    Verb.SCHEDULE,
    "{room-7}standup",
    NEVER,
    "default",
    Options(
        limit_key="room-7",
        lead_ms=250,
        if_rev=Rev(1207, 3),
        recurrence=Recurrence(
            RecurrenceKind.RRULE,
            "FREQ=WEEKLY;BYDAY=MO",
            "Europe/Berlin",
            "2026-03-02T09:00:00",
            rdate=("2026-03-03T09:00:00",),
            exdate=("2026-03-09T09:00:00",),
            gap="next_valid",
            fold="both",
            subday="wall",
            misfire=Misfire.ALL,
            grace_ms=5_000,
            overlap=Overlap.CANCEL_RUNNING,
            jitter_ms=1_500,
        ),
        event=b"\x01event",
    ),
    encode_body(BODY),
)
EVERY = Command(
    ID,
    Verb.SCHEDULE,
    "beat",
    NEVER,
    "default",
    Options(
        recurrence=Recurrence(RecurrenceKind.EVERY, start_ms=INSTANT, end_ms=INSTANT + 9, interval_ms=60_000)
    ),
    b"",
)
LIMITED = Command(
    OTHER_ID, Verb.LIMIT_QUEUE, "", NEVER, "bulk", Options(limits=QueueLimits(5, 10, 60_000)), b""
)
CANCEL = Command(OTHER_ID, Verb.CANCEL, "mail:42", NEVER, "", DEFAULT_OPTIONS, b"")
FAILED = Report(
    ReportKind.FAILED,
    "mail:42",
    INSTANT,
    1,
    ID,
    "mail",
    INSTANT + 20,
    INSTANT + 21,
    INSTANT + 95,
    "ValueError: no such mailbox",
)
SUCCEEDED = FAILED._replace(kind=ReportKind.SUCCEEDED, run_id=OTHER_ID, error="", result=b'{"sent":2}')
CLAIMED = FAILED._replace(kind=ReportKind.CLAIMED, ended_ms=NEVER, error="")
HEARTBEAT = CLAIMED._replace(kind=ReportKind.HEARTBEAT, progress=370, note="37 of 100, größtenteils")
RELEASED = CLAIMED._replace(kind=ReportKind.RELEASED, started_ms=NEVER)
GIVEN_UP = FAILED._replace(attempt=2, retry_ms=NO_RETRY)
POSTPONED = FAILED._replace(attempt=3, retry_ms=90_000)


ENDED = History(
    9,
    "mail:44",
    INSTANT,
    2,
    Rev(1209, 0),
    Outcome.SUCCEEDED,
    INSTANT + 120,
    "default",
    "mail",
    "worker-1",
    ID,
    INSTANT + 4,
    INSTANT + 20,
    INSTANT + 21,
    INSTANT + 95,
    "",
    b'{"sent":2}',
)


def _batch(client_id: str, reply: int, *commands: Command) -> CommandBatch:
    return CommandBatch(client_id, reply, commands, tuple(map(encode_command, commands)))


VALUES: dict[str, tuple[Any, ...]] = {
    "Body": (BODY, Body("", b"", {}, {})),
    "Claim": (Claim("host-1:4711", 3, 0, INSTANT),),
    "Command": (
        PLAIN,
        RARE,
        CANCEL,
        TERMS,
        STOP,
        WEEKLY,
        EVERY,
        LIMITED,
        *(CANCEL._replace(verb=verb) for verb in Verb if verb is not Verb.SCHEDULE),
    ),
    "CommandBatch": (_batch("client-1", 2, PLAIN, CANCEL), _batch("", -1)),
    "History": (
        History(
            7,
            "mail:42",
            INSTANT,
            1,
            Rev(1207, 3),
            Outcome.DEAD,
            INSTANT + 120,
            "default",
            "mail",
            "worker-1",
            ID,
            INSTANT + 4,
            INSTANT + 20,
            INSTANT + 21,
            INSTANT + 95,
            "ValueError: no such mailbox",
        ),
        History(
            8,
            "mail:43",
            INSTANT,
            0,
            Rev(1208, 0),
            Outcome.CANCELLED,
            INSTANT - 5,
            "default",
            "",
            "",
            b"",
            NEVER,
            NEVER,
            NEVER,
            NEVER,
            "",
        ),
        ENDED,
        ENDED._replace(number=10, outcome=Outcome.ATTEMPT_FAILED, error="OSError: busy", result=b""),
        ENDED._replace(
            number=11, outcome=Outcome.LEASE_EXPIRED, started_ms=NEVER, ended_ms=NEVER, result=b""
        ),
        ENDED._replace(
            number=12,
            attempt=0,
            outcome=Outcome.SKIPPED,
            error="misfire",
            result=b"",
            through_ts=INSTANT + 600_000,
            occurrences=11,
        ),
        ENDED._replace(
            number=13,
            attempt=0,
            outcome=Outcome.MOVED,
            error="tzdata 2026a -> 2026f",
            result=b"",
            through_ts=INSTANT + 3_600_000,
        ),
    ),
    "Progress": (
        Progress(
            InputPosition(ID, 1208, 4, 0),
            InputPosition(OTHER_ID, 0, 0, -1),
            INSTANT,
            7,
            9,
            "2026a",
            0,
        ),
        Progress(
            InputPosition(ID, 1208, 4, 0),
            InputPosition(OTHER_ID, 0, 0, -1),
            INSTANT,
            7,
            9,
            "2026f",
            0,
            "2026a",
        ),
    ),
    "QueueState": (
        QueueState("", paused=True),
        QueueState("bulk", False, QueueLimits(5, 10, 60_000), (RecentCommand(ID, VerdictKind.LIMITED, ""),)),
    ),
    "ReportBatch": (
        ReportBatch("worker-1", (FAILED, SUCCEEDED)),
        ReportBatch("worker-1", ()),
        ReportBatch("worker-2", (CLAIMED, HEARTBEAT, RELEASED, GIVEN_UP, POSTPONED)),
    ),
    "Signal": (
        Signal(ID, SignalKind.CANCELLED, "mail:42", INSTANT, 1),
        Signal(OTHER_ID, SignalKind.SUPERSEDED, "{room-7}übung", INSTANT + 1, 2),
    ),
    "TaskSpec": (
        TaskSpec(Rev(1207, 3), encode_command(PLAIN)),
        TaskSpec(Rev(2**40, 0), encode_command(RARE), VerdictKind.REPLACED),
    ),
    "TaskState": (
        TaskState(Rev(1207, 3), INSTANT, NEVER, (), None, NEVER, ()),
        TaskState(
            Rev(1207, 3),
            NEVER,
            INSTANT,
            (
                RunState(INSTANT, 1, Rev(1200, 0), INSTANT + 4),
                RunState(INSTANT, 2, Rev(1207, 3), INSTANT + 9),
                RunState(
                    INSTANT,
                    3,
                    Rev(1207, 3),
                    INSTANT + 9,
                    ID,
                    "worker-1",
                    1,
                    2,
                    NEVER,
                    INSTANT + 21,
                    ("q:bulk", "k:room-7"),
                    stopping=True,
                ),
                RunState(INSTANT, 4, Rev(1207, 3), INSTANT + 9, b"", "", 3, 0, INSTANT + 8_009),
            ),
            None,
            NEVER,
            (
                RecentCommand(ID, VerdictKind.SCHEDULED, ""),
                RecentCommand(OTHER_ID, VerdictKind.REJECTED, "queue 'nowhere' does not exist"),
                RecentCommand(OTHER_ID, VerdictKind.CONFLICT, "", encode_answer(MET)),
            ),
        ),
        TaskState(
            Rev(1207, 3), NEVER, INSTANT, (), Outcome.SUCCEEDED, INSTANT + 120, (), INSTANT + 3_600_120
        ),
        TaskState(
            Rev(1207, 3),
            INSTANT,
            NEVER,
            (),
            None,
            NEVER,
            (),
            extras=Extras(
                1_796_061_600,
                1,
                1_800_000_000,
                INSTANT + 250,
                True,
                "KeyError: 'x'",
                "q:bulk",
                (INSTANT - 1,),
                3,
                INSTANT - 60_000,
                INSTANT + 34_560_000_000,
                (INSTANT + 86_400_000,),
            ),
        ),
    ),
    "CalendarAnswer": (MET,),
    "VerdictBatch": (
        VerdictBatch(
            "client-1",
            (
                Verdict(
                    ID,
                    VerdictKind.TOO_LATE,
                    "mail:42",
                    Receipt(5, 1209, 0),
                    "dispatched",
                    INSTANT,
                    "",
                    (INSTANT, INSTANT + 1),
                ),
                Verdict(
                    OTHER_ID,
                    VerdictKind.REJECTED,
                    "mail:43",
                    Receipt(5, 1209, 1),
                    "",
                    NEVER,
                    "no such queue",
                    (),
                ),
                Verdict(
                    ID,
                    VerdictKind.CONFLICT,
                    "{room-7}übung",
                    Receipt(5, 1209, 2),
                    "",
                    NEVER,
                    str(MET),
                    (),
                    MET,
                ),
            ),
        ),
    ),
    "Work": (
        Work(5, 9, "mail:42", INSTANT, 1, Rev(1207, 3), INSTANT + 4, 10_000, 3_600_000, encode_body(BODY)),
        Work(5, 9, "beat", INSTANT, 2, Rev(1207, 3), INSTANT - 9, 10_000, 3_600_000, b"", INSTANT, 4, True),
    ),
}
"""By record name; the fixtures of its golden file, in the order of its lines."""

ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "Body": encode_body,
    "Claim": encode_claim,
    "Command": encode_command,
    "CommandBatch": lambda batch: encode_batch(batch.client_id, batch.reply, batch.encoded),
    "History": encode_history,
    "Progress": encode_progress,
    "QueueState": encode_queue,
    "ReportBatch": lambda batch: encode_reports(batch.worker, batch.reports),
    "Signal": encode_signal,
    "TaskSpec": encode_spec,
    "TaskState": encode_state,
    "CalendarAnswer": encode_answer,
    "VerdictBatch": lambda batch: encode_verdicts(batch.client_id, batch.verdicts),
    "Work": encode_work,
}


def write_missing() -> list[Path]:
    """Write the golden files that are not there; return their paths."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, values in VALUES.items():
        path = GOLDEN / f"{name}.hex"
        if not path.exists():
            path.write_text("".join(f"{ENCODERS[name](value).hex()}\n" for value in values))
            written.append(path)
    return written


if __name__ == "__main__":
    for path in write_missing():
        print(path)
