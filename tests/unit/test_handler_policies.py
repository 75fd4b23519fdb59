"""Lease, timeout and retries as values: from the decorator through `bind` into the command."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.client_doubles import FakeCluster
from tickstream.errors import InvalidInput, RetryIn
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    NO_RETRY,
    BoundCall,
    Never,
    Options,
    Retry,
    RunTerms,
)
from tickstream.worker import App, Context
from tickstream.worker.handler import Handler

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)
CTX = Context("mail:42", 1_767_225_600_123)
SECOND = timedelta(seconds=1)


def handler(**options: Any) -> Handler[..., None]:
    @App().handler("mail", **options)
    def mail(_ctx: Context) -> None: ...

    return mail


def test_a_handler_without_policies_carries_none() -> None:
    assert handler().terms is None
    assert handler(retry=Retry(never=(KeyError,)), lease=10 * SECOND).terms is None
    assert handler().bind() == BoundCall("mail", "default", b"{}", None, 1)


def test_what_differs_travels_with_the_call() -> None:
    mail = handler(
        lease=30 * SECOND,
        timeout=timedelta(minutes=2),
        retry=Retry(attempts=3, backoff=2 * SECOND, cap=60 * SECOND),
    )
    assert mail.bind().terms == RunTerms(30_000, 120_000, 3, 2_000, 60_000)


def test_a_command_carries_options_only_when_something_differs() -> None:
    cluster = FakeCluster()
    own = handler(lease=30 * SECOND).bind()
    with cluster.client() as client:
        client.schedule("plain", run_at=RUN_AT, call=handler().bind())
        client.schedule("own", run_at=RUN_AT, call=own)
        client.schedule("overridden", run_at=RUN_AT, call=own, timeout=60 * SECOND, retry=Retry(attempts=1))
        client.schedule("back", run_at=RUN_AT, call=own, lease=10 * SECOND)
        client.schedule("labelled", run_at=RUN_AT, call=own, labels={"a": "b"})
        client.schedule("bytes", run_at=RUN_AT, payload=b"", retry=Retry(attempts=2))
    options = {command.task_id: command.options for command in cluster.commands()}
    assert options == {
        "plain": DEFAULT_OPTIONS,
        "own": Options(terms=RunTerms(lease_ms=30_000)),
        "overridden": Options(terms=RunTerms(lease_ms=30_000, timeout_ms=60_000, attempts=1)),
        "back": DEFAULT_OPTIONS,
        "labelled": Options(terms=RunTerms(lease_ms=30_000)),
        "bytes": Options(terms=RunTerms(attempts=2)),
    }


def test_code_does_not_travel_with_a_task() -> None:
    with FakeCluster().client() as client, pytest.raises(InvalidInput, match="give them to the handler"):
        client.schedule("1", run_at=RUN_AT, payload=b"", retry=Retry(never=(KeyError,)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lease": timedelta(milliseconds=299)}, "lease=.*: at least"),
        ({"lease": 10}, "lease=10: a datetime.timedelta"),
        ({"timeout": timedelta(0)}, "timeout=0:00:00: at least"),
        ({"timeout": timedelta(days=25)}, "at most 24 days"),
        ({"retry": 3}, "retry=3: a Retry"),
        ({"executor": "fiber"}, "executor='fiber'"),
        ({"executor": "async"}, "is no async function"),
        ({"version": 0}, "versions count from 1"),
        ({"version": 3, "upcast": {1: dict}}, r"upcast has \[1\]"),
        ({"upcast": {1: dict}}, r"upcast has \[1\]"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_registration(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        handler(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attempts": 0}, "a number from 1 to 1000"),
        ({"backoff": timedelta(seconds=-1)}, "backoff="),
        ({"backoff": 10 * SECOND, "cap": SECOND}, "cap=0:00:01: at least 0:00:10"),
        ({"never": ValueError}, "a tuple of exception classes"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Retry(**options)


def test_an_async_handler_runs_on_the_loop_and_nowhere_else() -> None:
    async def mail(ctx: Context) -> None: ...

    assert App().handler()(mail).executor == "async"
    assert handler().executor is None
    assert handler(executor="process").executor == "process"
    with pytest.raises(InvalidInput, match="not in a process"):
        App().handler(executor="process")(mail)


def test_the_handlers_code_decides_on_its_own_failures() -> None:
    def when(error: BaseException, attempt: int) -> timedelta | Never | None:
        if isinstance(error, ConnectionError):
            return attempt * SECOND
        return Never() if isinstance(error, PermissionError) else None

    mail = handler(retry=Retry(never=(KeyError,), when=when))
    assert mail.retry_ms(KeyError()) == NO_RETRY
    assert mail.retry_ms(PermissionError()) == NO_RETRY
    assert mail.retry_ms(ConnectionResetError(), 3) == 3_000
    assert mail.retry_ms(OSError()) == NEVER


def test_retry_in_says_when() -> None:
    mail = handler(retry=Retry(never=(Exception,)))
    with pytest.raises(RetryIn, match="again in 0:00:05: the printer is warming up") as raised:
        CTX.retry_in(5 * SECOND, "the printer is warming up")
    assert mail.retry_ms(raised.value) == 5_000
    assert mail.retry_ms(RetryIn(timedelta(microseconds=1))) == 1
    with pytest.raises(InvalidInput, match="zero or more"):
        CTX.retry_in(-SECOND)


@pytest.mark.parametrize("answer", ["soon", timedelta(seconds=-1), KeyError("the policy's own")])
def test_a_policy_that_fails_leaves_it_to_the_backoff(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    def when(_error: BaseException, _attempt: int) -> timedelta:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    assert handler(retry=Retry(when=when)).retry_ms(OSError()) == NEVER
    assert "the retry policy of handler mail failed" in caplog.text


def test_results_are_kept_as_json_and_refused_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    mail = handler()
    assert mail.result_bytes(None) == b""
    assert mail.result_bytes({"für": 7}) == '{"für":7}'.encode()
    assert len(mail.result_bytes("x" * 4_094)) == 4_096
    with caplog.at_level(logging.WARNING):
        assert [mail.result_bytes(value) for value in ("x" * 4_095, object(), float("nan"))] == [b""] * 3
    (record,) = caplog.records
    assert "the result has 4097 bytes as JSON, the limit is 4096" in record.message
