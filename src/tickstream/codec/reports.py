"""What workers write: arrays of reports, encoded by hand like commands, since they are as many.

No other room may slice these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from tickstream.codec.avro import AVRO_LENGTHS, Schema, avro_bytes, avro_long, avro_text
from tickstream.codec.compiled import read_whole, reader
from tickstream.errors import MalformedValue
from tickstream.model import Report, ReportKind

_REPORT_BATCH: Final = Schema("ReportBatch")
_KINDS: Final = {kind.value: kind for kind in ReportKind}
_ENUM: Final[Any] = Schema("ReportKind").parsed
_KIND_BYTES: Final = {
    # An enum is the number of its symbol in the schema.
    _KINDS[symbol]: avro_long(number)
    for number, symbol in enumerate(_ENUM["symbols"])
}
_RUN_ID_BYTES: Final = 16


class ReportBatch(NamedTuple):
    """A decoded message of `reports`: one worker, one bucket."""

    worker: str
    reports: tuple[Report, ...]


class _Longs(dict[int, bytes]):
    """Encoded numbers of one message: its reports share most instants."""

    def __missing__(self, n: int) -> bytes:
        encoded = self[n] = avro_long(n)
        return encoded


def encode_reports(worker: str, reports: Sequence[Report]) -> bytes:
    """A ReportBatch in single-object encoding. Raises MalformedValue on a run_id that is none."""
    longs = _Longs()
    parts = [_REPORT_BATCH.header, avro_text(worker)]
    if reports:
        parts.append(AVRO_LENGTHS[len(reports)])
    for report in reports:
        if len(report.run_id) != _RUN_ID_BYTES:
            raise MalformedValue(f"run_id {report.run_id!r} of task {report.task_id!r} has not 16 bytes")
        parts += (
            _KIND_BYTES[report.kind],
            avro_text(report.task_id),
            longs[report.occurrence_ts],
            longs[report.attempt],
            report.run_id,
            avro_text(report.handler),
            longs[report.fetched_ms],
            longs[report.started_ms],
            longs[report.ended_ms],
            avro_text(report.error),
            longs[report.retry_ms],
            avro_bytes(report.result),
            longs[report.progress],
            avro_text(report.note),
        )
    parts.append(b"\x00")
    return b"".join(parts)


_batch_at: Final = reader(
    _REPORT_BATCH,
    "ReportBatch(worker, reports)",
    {
        "ReportBatch": ReportBatch,
        "Report": reader(
            Schema("Report"),
            f"Report({', '.join(Report._fields)})",
            {"Report": Report, "ReportKind": ReportKind},
        ),
    },
)


def decode_reports(value: bytes | None) -> ReportBatch:
    """What `encode_reports` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(ReportBatch, read_whole(_REPORT_BATCH, _batch_at, value))
