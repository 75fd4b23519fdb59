"""Handlers: what may be registered, what may be bound, what a payload becomes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tickstream.errors import InvalidInput
from tickstream.model import BoundCall, Rev
from tickstream.worker import App, Context

CTX = Context("mail:42", 1_767_225_600_123, rev=Rev(7, 0), labels={"team": "post"})


def test_a_bound_call_comes_back_as_the_same_arguments() -> None:
    app = App()
    seen: list[object] = []

    @app.handler("mail", queue="post")
    def mail(ctx: Context, to: str, *, copies: int = 1, **more: object) -> None:
        seen.append((ctx.task_id, to, copies, more))

    call = mail.bind("a@b", copies=2, colour="red")
    assert call == BoundCall("mail", "post", b'{"to":"a@b","copies":2,"colour":"red"}')
    app.handlers["mail"].call(CTX, call.payload)
    assert seen == [("mail:42", "a@b", 2, {"colour": "red"})]


def test_the_decorated_function_is_still_called_directly() -> None:
    app = App()

    @app.handler()
    def double(_ctx: Context, n: int) -> int:
        """Twice."""
        return 2 * n

    assert double(CTX, 21) == 42
    assert double(CTX, n=21) == 42
    assert (double.name, double.__doc__) == ("double", "Twice.")


def test_defaults_are_those_of_the_day_it_runs() -> None:
    app = App()

    @app.handler()
    def mail(_ctx: Context, to: str, subject: str = "hello") -> str:
        return f"{to}: {subject}"

    assert json.loads(mail.bind("a@b").payload) == {"to": "a@b"}
    assert mail.call(CTX, mail.bind("a@b").payload) == "a@b: hello"


def test_a_task_without_payload_is_a_call_without_arguments() -> None:
    app = App()

    @app.handler()
    def tidy(ctx: Context) -> str:
        return ctx.task_id

    assert tidy.call(CTX, b"") == "mail:42"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "missing a required argument: 'to'"),
        (("a", "b", "c"), "too many positional arguments"),
        ((object(),), "'to' cannot be written as JSON"),
        ((float("nan"),), "'to' cannot be written as JSON"),
        ((("a", "b"),), "'to' does not survive JSON unchanged"),
        (({1: "a"},), "'to' does not survive JSON unchanged"),
        (("\ud800",), "'to' cannot be written as JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(
    args: tuple[Any, ...], says: str
) -> None:
    app = App()

    @app.handler()
    def mail(_ctx: Context, to: object, subject: str = "") -> None: ...

    with pytest.raises(InvalidInput, match=says):
        mail.bind(*args)


def test_a_raw_handler_gets_the_bytes() -> None:
    app = App()

    @app.handler(raw=True)
    def store(_ctx: Context, payload: bytes) -> bytes:
        return payload

    assert store.call(CTX, store.bind(b"\x00\xff").payload) == b"\x00\xff"
    with pytest.raises(InvalidInput, match="takes bytes, not str"):
        store.bind("text")  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [b"[1]", b"null", b"{", b"\xff"])
def test_a_payload_that_is_no_object_is_said_so(payload: bytes) -> None:
    app = App()

    @app.handler()
    def mail(_ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match="payload"):
        mail.call(CTX, payload)


def _no_parameters() -> None: ...


def _only_keywords(*, ctx: Context) -> None: ...


def _nameless(ctx: Context, *to: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_no_parameters, "must take the Context first"),
        (_only_keywords, "must take the Context first"),
        (_nameless, "arguments travel by name"),
    ],
)
def test_functions_that_break_the_rule_are_refused(function: Callable[..., None], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        App().handler()(function)


def test_names_and_queues_are_checked_at_registration() -> None:
    app = App()
    app.handler("mail")(lambda ctx: ctx)
    with pytest.raises(InvalidInput, match="registered twice"):
        app.handler("mail")(lambda ctx: ctx)
    with pytest.raises(InvalidInput, match="1-255 bytes"):
        app.handler("")(lambda ctx: ctx)
    with pytest.raises(InvalidInput, match="queue 'a b'"):
        app.handler("other", queue="a b")
    with pytest.raises(InvalidInput, match="parentheses"):
        app.handler(_nameless)  # type: ignore[call-overload]


def test_a_context_names_its_occurrence(caplog: pytest.LogCaptureFixture) -> None:
    assert CTX.occurrence == datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)
    assert CTX.idempotency_key == "mail:42@1767225600123"
    CTX.log.warning("sent %d", 3, extra={"to": "a@b"})
    record = caplog.records[0]
    assert record.message == "sent 3"
    fields = {name: getattr(record, name) for name in ("task_id", "occurrence_ts", "attempt", "to")}
    assert fields == {"task_id": "mail:42", "occurrence_ts": 1_767_225_600_123, "attempt": 1, "to": "a@b"}
