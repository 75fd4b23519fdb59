"""A release that knows two versions of a record: it reads both, and writes the one that it is told to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tickstream.codec import avro, check_format, encode_signal, in_format
from tickstream.codec.avro import Schema, formats
from tickstream.errors import InvalidInput, MalformedValue, NotInFormat, RecordRefused, UnknownSchema
from tickstream.kafka import KafkaError, Message, clients
from tickstream.kafka.clients import plain_producer
from tickstream.model import Signal, SignalKind
from tickstream.settings import Settings, chosen

RELEASED = Path(__file__).parents[2] / "schemas" / "avro"
DATUM = {"run_id": b"r" * 16, "kind": "CANCELLED", "task_id": "t", "occurrence_ts": 5, "attempt": 1}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """v1 as released, and a v2 in which a Signal also says why."""
    monkeypatch.setattr(avro, "_KNOWN", dict(avro._KNOWN))
    shutil.copytree(RELEASED / "v1", tmp_path / "v1")
    (tmp_path / "v2").mkdir()
    for name in ("Signal", "SignalKind", "Id"):
        shutil.copy(RELEASED / "v1" / f"tickstream.{name}.avsc", tmp_path / "v2")
    file = tmp_path / "v2" / "tickstream.Signal.avsc"
    schema = json.loads(file.read_text())
    schema["fields"].append({"name": "why", "type": "string", "default": ""})
    file.write_text(json.dumps(schema))
    return tmp_path


def test_a_value_of_the_older_version_reads_like_one_of_the_newest(root: Path) -> None:
    old = encode_signal(Signal(b"r" * 16, SignalKind.CANCELLED, "t", 5, 1))
    both = Schema("Signal", root)
    assert both.read(old) == {**DATUM, "why": ""}
    assert both.read(both.write({**DATUM, "why": "late"}))["why"] == "late"


def test_the_newest_is_written_unless_it_is_held_back(root: Path) -> None:
    both = Schema("Signal", root)
    newest = both.write({**DATUM, "why": ""})
    old = encode_signal(Signal(b"r" * 16, SignalKind.CANCELLED, "t", 5, 1))
    assert both.in_format(newest, 2) == newest
    assert both.in_format(newest, 1) == in_format(newest, 1) == old


def test_what_the_older_version_has_no_words_for_is_refused_not_lost(root: Path) -> None:
    both = Schema("Signal", root)
    with pytest.raises(
        NotInFormat, match=r"a Signal says something that format 1 cannot.*raise format\.write"
    ):
        both.in_format(both.write({**DATUM, "why": "late"}), 1)
    assert issubclass(NotInFormat, RecordRefused), "a lane singles the element out"


def test_a_record_that_the_newer_version_left_alone_is_the_same_in_both(root: Path) -> None:
    assert Schema("Claim", root).header == Schema("Claim").header


def test_a_release_that_knows_one_version_stops_at_the_other(root: Path) -> None:
    newest = Schema("Signal", root).write({**DATUM, "why": ""})
    avro._KNOWN.pop(newest[:10])
    with pytest.raises(UnknownSchema, match="upgrade this process first"):
        Schema("Signal").read(newest)


def test_rubbish_under_an_older_header_is_refused_like_any(root: Path) -> None:
    both = Schema("Signal", root)
    old = encode_signal(Signal(b"r" * 16, SignalKind.CANCELLED, "t", 5, 1))
    for broken in (old[:-1], old + b"x"):
        with pytest.raises(MalformedValue):
            both.read(broken)


def test_a_number_that_this_release_cannot_write_is_refused_at_the_start() -> None:
    assert formats() == [1]
    assert check_format(1) == 1
    with pytest.raises(InvalidInput, match="this release writes 1"):
        plain_producer(Settings("127.0.0.1:1", format_write=2), "test")
    with pytest.raises(InvalidInput, match="TICKSTREAM_FORMAT_WRITE"):
        Settings.from_env({"TICKSTREAM_BOOTSTRAP": "b:1", "TICKSTREAM_FORMAT_WRITE": "new"})
    env = {"TICKSTREAM_BOOTSTRAP": "b:1", "TICKSTREAM_FORMAT_WRITE": "1"}
    assert Settings.from_env(env).format_write == 1


def test_another_prefix_does_not_let_go_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKSTREAM_BOOTSTRAP", "b:1")
    monkeypatch.setenv("TICKSTREAM_FORMAT_WRITE", "1")
    assert chosen(None, None, "other.") == Settings("b:1", "other.", format_write=1)


def test_every_producer_writes_it_and_dead_letters_stay_as_they_came(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = Schema("Signal", root).write({**DATUM, "why": ""})
    monkeypatch.setattr(clients, "formats", lambda: [1, 2])
    producer = plain_producer(Settings("127.0.0.1:1", format_write=1), "test")
    given_up: dict[str, bytes] = {}

    def undelivered(_error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        given_up[message.topic() or ""] = message.value() or b""

    for topic, value in (("signals", newest), ("dead-letter", newest), ("commands", b"rubbish")):
        producer.produce(f"tickstream.{topic}", value, None, 0, on_delivery=undelivered)
    producer.purge()
    producer.flush(5)
    assert given_up == {
        "tickstream.signals": in_format(newest, 1),
        "tickstream.dead-letter": newest,
        "tickstream.commands": b"rubbish",
    }
    assert in_format(newest, 1) != newest
