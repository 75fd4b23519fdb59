"""Payloads outlive the code that made them: versions, and the way from old ones to new."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.client_doubles import FakeCluster
from tickstream.codec import decode_body
from tickstream.errors import InvalidInput
from tickstream.worker import App, Context
from tickstream.worker.handler import Handler

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)


def context(**headers: str) -> Context:
    return Context("mail:42", 1_767_225_600_123, headers=headers)


def split(arguments: dict[str, Any]) -> dict[str, Any]:
    """1 → 2: `to` became a list."""
    return {**arguments, "to": arguments["to"].split(",")}


def named(arguments: dict[str, Any]) -> dict[str, Any]:
    """2 → 3: `to` is called `recipients`."""
    return {"recipients": arguments["to"]}


@pytest.fixture
def mail() -> Handler[[list[str]], list[str]]:
    @App().handler("mail", version=3, upcast={1: split, 2: named})
    def mail(_ctx: Context, recipients: list[str]) -> list[str]:
        return recipients

    return mail


def test_every_version_on_its_way_arrives_as_the_present_one(mail: Handler[[list[str]], list[str]]) -> None:
    assert mail.call(context(), b'{"to":"a,b"}') == ["a", "b"]
    assert mail.call(context(v="2"), b'{"to":["a","b"]}') == ["a", "b"]
    assert mail.call(context(v="3"), mail.bind(["a", "b"]).payload) == ["a", "b"]


def test_the_version_travels_beside_the_payload_and_the_first_one_unsaid(
    mail: Handler[[list[str]], list[str]],
) -> None:
    @App().handler()
    def plain(_ctx: Context) -> None: ...

    cluster = FakeCluster()
    with cluster.client() as client:
        client.schedule("3", run_at=RUN_AT, call=mail.bind(["a"]))
        client.schedule("1", run_at=RUN_AT, call=plain.bind())
        client.schedule("labelled", run_at=RUN_AT, call=mail.bind(["a"]), labels={"k": "v"})
    headers = {command.task_id: decode_body(command.body).headers for command in cluster.commands()}
    assert headers == {"3": {"v": "3"}, "1": {}, "labelled": {"v": "3"}}


@pytest.mark.parametrize(
    ("version", "says"), [("4", "upgrade this worker"), ("x", "is a number"), ("-1", "is a number")]
)
def test_a_payload_from_elsewhere_is_said_so(
    mail: Handler[[list[str]], list[str]], version: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        mail.call(context(v=version), b"{}")


def test_versions_no_longer_taken_are_said_so() -> None:
    @App().handler("mail", version=3, upcast={2: named})
    def mail(_ctx: Context, recipients: list[str]) -> None: ...

    with pytest.raises(InvalidInput, match="takes those from 2 on"):
        mail.call(context(), b'{"to":"a"}')


def test_an_upcaster_that_returns_no_arguments_is_said_so() -> None:
    @App().handler("mail", version=2, upcast={1: list})
    def mail(_ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match="the upcast payload is a JSON list"):
        mail.call(context(), b"{}")


def test_bytes_have_versions_too() -> None:
    @App().handler(raw=True, version=2, upcast={1: bytes.upper})
    def store(_ctx: Context, payload: bytes) -> bytes:
        return payload

    assert store.call(context(), b"old") == b"OLD"
    assert store.call(context(v="2"), b"new") == b"new"
