"""Every byte that tickstream puts into a topic: Avro in single-object encoding, and record keys.

No Kafka client, no store (its keys are in timer_store/keys.py), no decision may enter here.

Single-object encoding (Avro specification): the marker C3 01, the schema's 8-byte CRC-64-AVRO
fingerprint in little endian, the datum. Schemas are read from `schemas/avro/<version>/`; every
released version stays there and stays readable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tickstream.codec.avro import check_format, formats, in_format
from tickstream.codec.commands import (
    BATCH_END,
    ONE_ELEMENT,
    CommandBatch,
    ScheduleFrame,
    batch_head,
    batch_of_elements,
    command_id_of,
    decode_batch,
    decode_body,
    decode_command,
    element_of,
    encode_batch,
    encode_body,
    encode_command,
)
from tickstream.codec.hot import (
    decode_history,
    decode_progress,
    decode_spec,
    decode_state,
    decode_work,
    encode_history,
    encode_progress,
    encode_spec,
    encode_state,
    encode_work,
)
from tickstream.codec.records import (
    CLAIM,
    PROGRESS,
    QUEUE,
    SPEC,
    STATE,
    VerdictBatch,
    decode_answer,
    decode_claim,
    decode_queue,
    decode_signal,
    decode_verdicts,
    encode_answer,
    encode_claim,
    encode_queue,
    encode_signal,
    encode_verdicts,
    split_off_by,
    split_timers_key,
    timers_key,
)
from tickstream.codec.reports import ReportBatch, decode_reports, encode_reports

__all__ = [
    "BATCH_END",
    "CLAIM",
    "DECODERS",
    "ONE_ELEMENT",
    "PROGRESS",
    "QUEUE",
    "SPEC",
    "STATE",
    "CommandBatch",
    "ReportBatch",
    "ScheduleFrame",
    "VerdictBatch",
    "batch_head",
    "batch_of_elements",
    "check_format",
    "command_id_of",
    "decode_answer",
    "decode_batch",
    "decode_body",
    "decode_claim",
    "decode_command",
    "decode_history",
    "decode_progress",
    "decode_queue",
    "decode_reports",
    "decode_signal",
    "decode_spec",
    "decode_state",
    "decode_verdicts",
    "decode_work",
    "element_of",
    "encode_answer",
    "encode_batch",
    "encode_body",
    "encode_claim",
    "encode_command",
    "encode_history",
    "encode_progress",
    "encode_queue",
    "encode_reports",
    "encode_signal",
    "encode_spec",
    "encode_state",
    "encode_verdicts",
    "encode_work",
    "formats",
    "in_format",
    "split_off_by",
    "split_timers_key",
    "timers_key",
]

DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "Body": decode_body,
    "CalendarAnswer": decode_answer,
    "Claim": decode_claim,
    "Command": decode_command,
    "CommandBatch": decode_batch,
    "History": decode_history,
    "Progress": decode_progress,
    "QueueState": decode_queue,
    "ReportBatch": decode_reports,
    "Signal": decode_signal,
    "TaskSpec": decode_spec,
    "TaskState": decode_state,
    "VerdictBatch": decode_verdicts,
    "Work": decode_work,
}
"""By record name, for tools that print a topic and for the golden-byte tests."""
