"""The only package that configures confluent-kafka, and the only one that reads its error codes.

No decision and no tickstream record may enter here. What others need of confluent-kafka's types
they import from here.
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tickstream.kafka.admin import CONNECT_TIMEOUT_S, Admin, EndProbe, GroupMember, end_of
from tickstream.kafka.clients import (
    lanes_consumer,
    partitioner,
    plain_producer,
    state_consumer,
    transactional_producer,
    worker_consumer,
)
from tickstream.kafka.messages import place
from tickstream.kafka.reading import QUIET_S, read_until
from tickstream.kafka.recovery import (
    is_evicted,
    is_out_of_range,
    transaction_error,
    transaction_errors,
    undelivered,
)

__all__ = [
    "CONNECT_TIMEOUT_S",
    "QUIET_S",
    "Admin",
    "Consumer",
    "EndProbe",
    "GroupMember",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicPartition",
    "end_of",
    "is_evicted",
    "is_out_of_range",
    "lanes_consumer",
    "partitioner",
    "place",
    "plain_producer",
    "read_until",
    "state_consumer",
    "transaction_error",
    "transaction_errors",
    "transactional_producer",
    "undelivered",
    "worker_consumer",
]
