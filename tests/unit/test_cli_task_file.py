"""A task file: what a line says, and what is wrong with it, by its number."""

import json

import pytest

from tickstream.ops.task_file import BadLine, TaskLine, read_tasks
from tickstream.settings import MAX_PAYLOAD_BYTES

START = 1_800_000_000_000


def read(*lines: object) -> list[TaskLine | BadLine]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return list(read_tasks(texts, start_ms=START, queues={"default", "mail"}))


def task(**fields: object) -> dict[str, object]:
    return {"task_id": "mail:1", "offset_s": 1, "handler": "mail", **fields}


def reason(line: object) -> str:
    (bad,) = read(line)
    assert isinstance(bad, BadLine), bad
    return bad.reason


def test_a_line_with_everything() -> None:
    line = task(offset_s=1.5, payload={"to": "ä"}, queue="mail", labels={"a": "b"})
    assert read(line) == [
        TaskLine(1, "mail:1", START + 1_500, "mail", '{"to":"ä"}'.encode(), "mail", {"a": "b"})
    ]


def test_a_text_goes_as_it_is_and_nothing_as_no_bytes() -> None:
    text, nothing = read(task(payload="plain"), task())
    assert isinstance(text, TaskLine)
    assert isinstance(nothing, TaskLine)
    assert (text.payload, nothing.payload, nothing.queue) == (b"plain", b"", "default")


def test_an_instant_of_its_own() -> None:
    (line,) = read({"task_id": "a", "handler": "h", "run_at": "1970-01-01T01:00:00.0001+01:00"})
    assert isinstance(line, TaskLine)
    assert line.run_at_ms == 1


@pytest.mark.parametrize(
    ("offset_s", "ms"), [(0.001, 1), (0.0011, 2), (-1, -1000), (4.35, 4350), (59.999, 59_999)]
)
def test_offsets_round_up_to_the_millisecond(offset_s: float, ms: int) -> None:
    (line,) = read(task(offset_s=offset_s))
    assert isinstance(line, TaskLine)
    assert line.run_at_ms - START == ms


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"),
        ("[1]", "not a JSON object"),
        (task(runat=1), "unknown field runat"),
        ({"task_id": "a", "handler": "h"}, "exactly one of"),
        (task(run_at="2026-01-01T00:00:00Z"), "exactly one of"),
        ({"task_id": "a", "handler": "h", "run_at": "2026-01-01T00:00:00"}, "no time zone"),
        ({"task_id": "a", "handler": "h", "run_at": "soon"}, "no instant"),
        ({"task_id": "a", "handler": "h", "run_at": 5}, "run_at is 5"),
        (task(offset_s=True), "number of seconds"),
        (task(offset_s="5"), "number of seconds"),
        ('{"task_id": "a", "handler": "h", "offset_s": NaN}', "number of seconds"),
        (task(task_id="a\n"), "control characters"),
        (task(task_id=7), "task_id is 7"),
        ({"offset_s": 1, "handler": "h"}, "task_id is missing"),
        (task(handler=""), "handler is ''"),
        (task(queue="nowhere"), "queue 'nowhere' does not exist"),
        (task(labels={"a": 1}), "object of texts"),
        (task(labels=["a"]), "object of texts"),
        (task(labels={"a": "\ud800"}), "labels is no valid Unicode"),
        (task(payload="\ud800"), "payload is no valid Unicode"),
        (task(payload="x" * (MAX_PAYLOAD_BYTES + 1)), "the limit is"),
    ],
)
def test_a_bad_line_says_why(line: object, said: str) -> None:
    assert said in reason(line)


def test_lines_are_counted_with_the_empty_ones() -> None:
    first, bad, last = read(task(), "", "nonsense", " \n", task())
    assert isinstance(bad, BadLine)
    assert (first.number, bad.number, last.number) == (1, 3, 5)
    assert str(bad).startswith("line 3: no JSON")
