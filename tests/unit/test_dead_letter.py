"""What a replay of a dead letter is."""

from __future__ import annotations

import pytest

from tickstream.codec import decode_batch, encode_body
from tickstream.errors import InvalidInput
from tickstream.model import Body, DeadReason, IfExists, Verb, bucket_of
from tickstream.ops.dead_letter import Choice, Letter, letter_number, replay_of
from tickstream.topics import TopicNames

NAMES = TopicNames("t.")
UNREAD = Letter(2, 17, 0, "", DeadReason.UNDECODABLE, "no marker", "commands", 5, "", 7, b"rubbish")
WORK = Letter(1, 4, 0, "mail:42", DeadReason.GAVE_UP, "ValueError: no", "work", 3, "mail", 4, b"body")


@pytest.mark.parametrize(("source", "topic"), [("commands", "t.commands"), ("reports", "t.reports")])
def test_what_could_not_be_read_goes_back_byte_for_byte(source: str, topic: str) -> None:
    replay = replay_of(UNREAD._replace(source=source), NAMES, 8, 99)
    assert (replay.topic, replay.partition, replay.value) == (topic, 5, b"rubbish")


def test_work_given_up_on_is_scheduled_for_now_and_replaces_nothing() -> None:
    replay = replay_of(WORK, NAMES, 8, 99)
    assert (replay.topic, replay.partition) == ("t.commands", bucket_of("mail:42", 8))
    (command,) = decode_batch(replay.value).commands
    assert (command.verb, command.task_id, command.when) == (Verb.SCHEDULE, "mail:42", 99)
    assert (command.queue, command.body) == ("mail", b"body")
    assert command.options.if_exists is IfExists.REJECT


def test_a_letter_replayed_twice_is_one_command() -> None:
    first, again = (decode_batch(replay_of(WORK, NAMES, 8, now).value).commands for now in (99, 500))
    assert first[0].command_id == again[0].command_id
    other = decode_batch(replay_of(WORK._replace(offset=5), NAMES, 8, 99).value).commands
    assert other[0].command_id != first[0].command_id


def test_what_was_cut_short_cannot_be_sent_again() -> None:
    with pytest.raises(InvalidInput, match="2:17 had 2000000 bytes"):
        replay_of(UNREAD._replace(size=2_000_000), NAMES, 8, 99)


def test_work_whose_queue_nobody_knows_cannot_be_scheduled() -> None:
    with pytest.raises(InvalidInput, match="'mail:42' was defined anew"):
        replay_of(WORK._replace(queue=""), NAMES, 8, 99)


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (Choice(), "abcd"),
        (Choice(reason="gave_up"), "abc"),
        (Choice(handler="charge"), "ab"),
        (Choice(handler="charge", error_like="Timeout after # ms"), "a"),
        (Choice(error_like="Timeout after 9 ms"), "ac"),
        (Choice(error_like="Timeout after 9 ms", since_ms=50), "c"),
    ],
)
def test_letters_are_chosen_by_handler_and_error(choice: Choice, taken: str) -> None:
    def work(handler: str, error: str, at_ms: int) -> Letter:
        body = encode_body(Body(handler, b"", {}, {}))
        return WORK._replace(detail=error, value=body, size=len(body), at_ms=at_ms)

    letters = {
        "a": work("charge", "Timeout after 10 ms", 10),
        "b": work("charge", "KeyError: 'x'", 20),
        "c": work("render", "Timeout after 35 ms", 60),
        "d": UNREAD,
    }
    assert "".join(name for name, letter in letters.items() if choice.takes(letter)) == taken


def test_letters_are_named_by_partition_and_offset() -> None:
    assert letter_number("2:17") == (2, 17)
    for wrong in ("17", "2:", ":17", "a:b", "9:1", "-1:3"):
        with pytest.raises(InvalidInput, match="write PARTITION:OFFSET"):
            letter_number(wrong)
