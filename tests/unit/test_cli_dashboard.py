"""What `dashboard run` and `projection run` make of their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tickstream.cli.dashboard import run as run_dashboard
from tickstream.cli.projection import parse_buckets
from tickstream.cli.projection import run as run_projection
from tickstream.errors import InvalidInput
from tickstream.projection import server, service
from tickstream.settings import Settings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a server would have been started with."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(server, "serve", lambda **options: calls.append(options))
    return calls


def start(**options: Any) -> None:
    given: dict[str, Any] = {"data": None, "shard": None, "host": "127.0.0.1", "port": 0, "allow_host": None}
    run_dashboard(**given | {"token": None, "token_file": None, "json": True} | options)


def test_the_token_is_the_first_line_of_its_file(tmp_path: Path, served: list[dict[str, Any]]) -> None:
    file = tmp_path / "token"
    file.write_text("  s3cret \nand a remark\n")
    start(token_file=file)
    assert served[0]["token"] == "s3cret"
    start()
    assert served[1]["token"] is None


@pytest.mark.parametrize("content", ["", "\n", "  \nsecond line"])
def test_an_empty_token_is_none(tmp_path: Path, served: list[dict[str, Any]], content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(InvalidInput, match="first line is empty"):
        start(token_file=file)
    with pytest.raises(InvalidInput, match="cannot be read"):
        start(token_file=tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="give one of them"):
        start(token="a", token_file=file)
    assert served == []


def test_a_dashboard_has_an_index_or_shards(tmp_path: Path, served: list[dict[str, Any]]) -> None:
    start(shard=["http://one:8080", "http://two:8080"])
    assert (served[0]["data_dir"], served[0]["shards"]) == (None, ["http://one:8080", "http://two:8080"])
    start()
    assert (served[1]["data_dir"], served[1]["shards"]) == (Path("data/projection"), ())
    with pytest.raises(InvalidInput, match="not both"):
        start(data=tmp_path, shard=["http://one:8080"])


@pytest.mark.parametrize(("rack", "kafka"), [("b", {"client.rack": "b"}), (None, {})])
def test_a_projection_tells_the_brokers_its_rack(
    monkeypatch: pytest.MonkeyPatch, rack: str | None, kafka: dict[str, str]
) -> None:
    told: list[Settings] = []
    monkeypatch.setattr(service, "run_projection", lambda settings, **_: told.append(settings))
    run_projection(
        data=Path("unused"), buckets=None, retention="7d", rack=rack, bootstrap="b:1", prefix="t.", json=True
    )
    assert told == [Settings("b:1", "t.", kafka)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("4, 0-1,1", (0, 1, 4)), ("7-7", (7,))],
)
def test_buckets_are_numbers_and_ranges(text: str, expected: tuple[int, ...]) -> None:
    assert parse_buckets(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "0,,1", "0-70000", "٣"])
def test_other_buckets_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--buckets"):
        parse_buckets(text)
