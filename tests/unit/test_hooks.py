"""Hooks are told of runs, in order, and can change nothing."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tickstream.errors import InvalidInput
from tickstream.model import Retry
from tickstream.testing import Harness
from tickstream.worker import App, Context

CTX = Context("mail:42", 1_767_225_600_123)


def told_app() -> tuple[App, list[tuple[Any, ...]]]:
    app, told = App(), []  # type: ignore[var-annotated]
    app.on_start(lambda ctx: told.append(("start", ctx.task_id)))
    app.on_success(lambda _ctx, result: told.append(("success", result)))
    app.on_failure(lambda _ctx, error: told.append(("failure", str(error))))
    app.on_dead(lambda _ctx, error: told.append(("dead", str(error))))
    return app, told


def test_a_run_is_told_from_start_to_success() -> None:
    app, told = told_app()

    @app.handler()
    def double(_ctx: Context, n: int) -> int:
        told.append(("handler", n))
        return 2 * n

    assert double.call(CTX, b'{"n":4}') == 8
    assert told == [("start", "mail:42"), ("handler", 4), ("success", 8)]


def test_an_async_run_as_well() -> None:
    app, told = told_app()

    @app.handler()
    async def double(_ctx: Context, n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    assert asyncio.run(double.call(CTX, b'{"n":4}')) == 8
    assert told == [("start", "mail:42"), ("success", 8)]


def test_occurrences_passed_over_are_told_before_the_start() -> None:
    app, told = told_app()
    app.on_missed(lambda ctx, skipped: told.append(("missed", ctx.task_id, skipped)))

    @app.handler()
    def beat(_ctx: Context) -> None:
        told.append(("handler",))

    beat.call(CTX, b"")
    beat.call(Context("mail:42", CTX.occurrence_ts, skipped=3), b"")
    run = [("start", "mail:42"), ("handler",), ("success", None)]
    assert told == [*run, ("missed", "mail:42", 3), *run]


def test_the_failure_of_a_last_attempt_is_told_as_the_end() -> None:
    app, told = told_app()

    @app.handler()
    def fails(_ctx: Context) -> None:
        raise OSError("again")

    for last in (False, True):
        with pytest.raises(OSError):
            fails.call(Context("mail:42", CTX.occurrence_ts, 5, last_attempt=last), b"")
    again = [("start", "mail:42"), ("failure", "again")]
    assert told == [*again, *again, ("dead", "again")]


def test_a_worker_knows_its_last_attempt(tick: Harness) -> None:
    app, told = told_app()

    @app.handler(retry=Retry(attempts=3, backoff=timedelta(seconds=1)))
    def fails(ctx: Context) -> None:
        raise OSError(f"{ctx.attempt}")

    tick.client.schedule("mail:1", run_at=tick.now, call=fails.bind())
    worker = tick.worker(app)
    for _ in range(3):
        tick.advance(timedelta(seconds=10))
        worker.run_all()
    assert [what for what in told if what[0] != "start"] == [
        ("failure", "1"),
        ("failure", "2"),
        ("failure", "3"),
        ("dead", "3"),
    ]


def test_a_failure_is_told_and_goes_on() -> None:
    app, told = told_app()

    @app.handler(retry=Retry(never=(LookupError,)))
    def fails(_ctx: Context, kind: str) -> None:
        raise {"often": OSError, "never": KeyError}[kind](kind)

    with pytest.raises(OSError):
        fails.call(CTX, b'{"kind":"often"}')
    with pytest.raises(KeyError):
        fails.call(CTX, b'{"kind":"never"}')
    start = ("start", "mail:42")
    assert told == [start, ("failure", "often"), start, ("failure", "'never'"), ("dead", "'never'")]


def test_a_cancelled_coroutine_is_a_failure() -> None:
    app, told = told_app()

    @app.handler()
    async def waits(_ctx: Context) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        run = asyncio.create_task(waits.call(CTX, b""))
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(story())
    assert told == [("start", "mail:42"), ("failure", "")]


def test_a_payload_that_cannot_be_read_is_a_failure() -> None:
    app, told = told_app()

    @app.handler()
    def mail(_ctx: Context) -> None: ...

    with pytest.raises(InvalidInput):
        mail.call(CTX, b"[]")
    assert [name for name, *_ in told] == ["start", "failure"]


def test_what_a_hook_raises_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    app, told = App(), []

    @app.on_start
    @app.on_success
    def broken(*_: object) -> None:
        raise KeyError("the hook's own")

    app.on_success(lambda _ctx, result: told.append(result))

    @app.handler()
    def one(_ctx: Context) -> int:
        return 1

    assert one.call(CTX, b"") == 1
    assert told == [1]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_hooks_are_plain_functions() -> None:
    async def hook(ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match="plain functions"):
        App().on_start(hook)
