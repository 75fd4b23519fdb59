"""Reading messages."""

from __future__ import annotations

from confluent_kafka import Message


def place(message: Message[bytes, bytes]) -> tuple[str, int, int]:
    """(topic, partition, offset) of a message that was read or delivered."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("the message has no place in a log: it was never delivered")
    return topic, partition, offset
