"""The journal that a client keeps for the audit."""

import json

import pytest

from tickstream.model import NEVER, Receipt, VerdictKind
from tickstream.ops.audit.journal import Acked, parse_journal


def test_receipts_answers_and_kills() -> None:
    lines = [
        json.dumps({"type": "schedule", "task_id": "a", "run_at_ms": 17, "receipt": "3:1207:2"}),
        "",
        json.dumps({"type": "cancel", "task_id": "a", "receipt": "3:1208:0", "verdict": "CANCELLED"}),
        json.dumps({"type": "kill", "role": "worker", "at_ms": 3, "pid": 1}),
        json.dumps({"type": "kill", "role": "dispatcher", "at_ms": 9, "pid": 2}),
        json.dumps({"type": "kill", "role": "dispatcher", "at_ms": 5, "pid": 3}),
    ]
    journal = parse_journal(lines)
    assert journal.acked == (
        Acked("a", 17, Receipt(3, 1207, 2), None),
        Acked("a", NEVER, Receipt(3, 1208, 0), VerdictKind.CANCELLED),
    )
    assert journal.dispatcher_kills_ms == (5, 9)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2"),
        ("[]", "line 2"),
        ('{"type": "schedule", "task_id": "a", "receipt": "1:2:3"}', "'run_at_ms' is missing"),
        ('{"type": "cancel", "task_id": "a", "receipt": "1:2"}', "bucket:offset:item"),
        ('{"type": "cancel", "task_id": "a", "receipt": "1:2:3", "verdict": "MAYBE"}', "MAYBE"),
        ('{"type": "dance"}', "none of schedule, cancel, kill"),
    ],
)
def test_a_bad_line_is_named(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2") as raised:
        parse_journal(["\n", line])
    assert says in str(raised.value)
