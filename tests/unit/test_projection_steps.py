"""Two logs put together: only whole steps are taken, whichever log is ahead, and what waits is bounded."""

from __future__ import annotations

import pytest

from tests.projection_log import LogWriter
from tickstream import codec
from tickstream.errors import MalformedValue, UnknownSchema
from tickstream.model import DEFAULT_OPTIONS, Body, Command, Rev, TaskSpec, Verb
from tickstream.projection.rows import Columns, Definition, Payload, Position
from tickstream.projection.steps import SHOWN_BYTES, BucketBuffer, definition_of

AT = 600_000


@pytest.fixture
def log() -> LogWriter:
    """A task that ran, in three transactions; then the Progress of an idle second."""
    log = LogWriter(0)
    for action in ("schedule", "fire", "report"):
        log.act(action, "a", AT)
        log.commit()
    log.commit()
    return log


def test_nothing_is_taken_before_a_progress(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position())
    buffer.add_timers(0, *log.timers[0])
    buffer.add_timers(1, *log.timers[1])
    assert buffer.take() is None


def test_a_step_waits_for_the_outcomes_that_its_progress_names(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position())
    for offset, record in enumerate(log.timers):
        buffer.add_timers(offset, *record)
    first = buffer.take()
    assert first is not None
    assert (first.position.history, first.outcomes) == (0, [])
    assert first.states["a"] is not None
    assert first.states["a"].runs != ()
    assert buffer.awaited_number() == 1
    assert buffer.take() is None

    buffer.add_history(0, log.history[0])
    second = buffer.take()
    assert second is not None
    assert [outcome.task_id for outcome in second.outcomes] == ["a"]
    assert second.definitions == {"a": [None]}
    assert second.position == Position(len(log.timers), 1, 1, 4, 1, 0, restoring=False, tzdata="2025.1")


def test_outcomes_ahead_wait_for_their_progress(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position())
    buffer.add_history(0, log.history[0])
    for offset, record in enumerate(log.timers[:3]):
        buffer.add_timers(offset, *record)
    step = buffer.take()
    assert step is not None
    assert step.outcomes == []
    assert step.position.history == 0


def test_outcomes_deleted_by_age_count_as_seen(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position())
    for offset, record in enumerate(log.timers):
        buffer.add_timers(offset, *record)
    buffer.take()
    buffer.history_gone(1)
    step = buffer.take()
    assert step is not None
    assert step.position.history_number == 1
    assert not step.position.restoring


def test_whole_steps_in_a_row_are_one(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position())
    buffer.add_history(0, log.history[0])
    for offset, record in enumerate(log.timers):
        buffer.add_timers(offset, *record)
    step = buffer.take()
    assert step is not None
    assert step.position.timers == len(log.timers)
    assert [d and d.columns.handler for d in step.definitions["a"]] == ["handler-0", None]
    assert buffer.take() is None


def test_the_log_that_is_ahead_is_held_back(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position(), limit=1)
    buffer.add_history(0, log.history[0])
    assert buffer.holds_back_history()
    assert not buffer.holds_back_timers()
    assert buffer.take() is None

    buffer = BucketBuffer(0, Position(), limit=3)
    for offset, record in enumerate(log.timers):
        buffer.add_timers(offset, *record)
    buffer.take()
    for offset in range(3):
        buffer.add_timers(len(log.timers) + offset, codec.timers_key(codec.STATE, "b"), None)
    assert buffer.holds_back_timers()


def test_a_stretch_too_long_to_wait_is_taken_in_parts_and_says_so(log: LogWriter) -> None:
    buffer = BucketBuffer(0, Position(), limit=2)
    buffer.add_timers(0, *log.timers[0])
    buffer.add_timers(1, *log.timers[1])
    part = buffer.take()
    assert part is not None
    assert part.position.restoring
    assert part.position.applied_before_ms == 0
    buffer.add_timers(2, *log.timers[2])
    whole = buffer.take()
    assert whole is not None
    assert not whole.position.restoring


def test_what_cannot_be_read_is_not_skipped() -> None:
    buffer = BucketBuffer(0, Position())
    with pytest.raises(UnknownSchema):
        buffer.add_timers(0, codec.timers_key(codec.SPEC, "a"), b"\xc3\x01" + b"\x07" * 8)
    with pytest.raises(MalformedValue):
        buffer.add_timers(0, b"?a", b"")
    with pytest.raises(MalformedValue):
        buffer.add_history(0, None)


@pytest.mark.parametrize(
    ("payload", "form", "shown"),
    [
        (b'{"to": "a@b.example"}', "json", '{"to": "a@b.example"}'),
        ("<script>ü".encode(), "text", "<script>ü"),
        (b"\xff\x00\x1b", "bytes", "ff 00 1b"),
        (b"", "text", ""),
        (b"x" * (SHOWN_BYTES - 1) + "üy".encode(), "text", "x" * (SHOWN_BYTES - 1)),
    ],
)
def test_of_a_payload_only_size_and_form_are_kept_unless_it_is_to_be_shown(
    payload: bytes, form: str, shown: str
) -> None:
    body = codec.encode_body(Body("h", payload, {}, {}))
    command = Command(b"c" * 16, Verb.SCHEDULE, "a", AT, "q", DEFAULT_OPTIONS, body)
    value = codec.encode_spec(TaskSpec(Rev(4, 2), codec.encode_command(command)))
    for payloads, text in ((False, None), (True, shown)):
        definition, _ = definition_of(value, payloads=payloads)
        assert definition.payload == Payload(len(payload), form, text)


@pytest.mark.parametrize(("payloads", "text"), [(False, None), (True, "secret")])
def test_a_bucket_keeps_payloads_only_if_it_is_to(payloads: bool, text: str | None) -> None:
    log, buffer = LogWriter(0), BucketBuffer(0, Position(), payloads=payloads)
    log.act("schedule", "a", AT)
    log.commit()
    for offset, record in enumerate(log.timers):
        buffer.add_timers(offset, *record)
    step = buffer.take()
    assert step is not None
    (definition,) = step.definitions["a"]
    assert definition is not None
    assert definition.payload == Payload(6, "text", text)


def test_a_producers_unreadable_body_leaves_its_columns_empty() -> None:
    command = Command(b"c" * 16, Verb.SCHEDULE, "a", AT, "q", DEFAULT_OPTIONS, b"not a body")
    value = codec.encode_spec(TaskSpec(Rev(4, 2), codec.encode_command(command)))
    assert definition_of(value) == (Definition(Rev(4, 2), Columns("q", "", {})), b"")
