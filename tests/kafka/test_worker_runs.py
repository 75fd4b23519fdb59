"""What a worker makes of a record: the run, the report, the offset."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.kafka.worker_kit import LocalWorker, Stage, local_worker
from tickstream.codec import encode_work
from tickstream.errors import InvalidInput, LayoutMismatch, UnknownQueue
from tickstream.model import NO_RETRY, BoundCall, ReportKind, Rev, Work
from tickstream.settings import Settings
from tickstream.worker import App, Context
from tickstream.worker.runtime import run_worker


@pytest.fixture
def stage(broker: str, prefix: str) -> Iterator[Stage]:
    stage = Stage(broker, prefix, ("default", "other"))
    yield stage
    stage.close()


def test_sync_async_and_raw_handlers_are_run_and_reported(stage: Stage) -> None:
    app = App()
    seen: dict[str, object] = {}

    @app.handler()
    def sync(ctx: Context, n: int) -> None:
        seen[ctx.task_id] = (n, threading.current_thread().name.startswith("handler-"), dict(ctx.labels))

    @app.handler()
    async def on_loop(ctx: Context, n: int) -> None:
        await asyncio.sleep(0)
        seen[ctx.task_id] = (n, threading.current_thread().name)

    @app.handler(raw=True)
    def raw(ctx: Context, payload: bytes) -> None:
        seen[ctx.task_id] = payload

    stage.put(sync.bind(1), "{k}a", labels={"team": "post"})
    stage.put(on_loop.bind(n=2), "b", partition=1)
    # A later attempt lies in another partition than its bucket.
    stage.put(raw.bind(b"\x00"), "c", partition=2, bucket=3)
    with local_worker(stage, app, worker_id="w1"):
        told = {t.report.task_id: t for t in stage.reports(3)}
        stage.await_committed({0: 1, 1: 1, 2: 1})

    assert seen == {"{k}a": (1, True, {"team": "post"}), "b": (2, "handler-loop"), "c": b"\x00"}
    assert {task: (t.partition, t.key, t.worker) for task, t in told.items()} == {
        "{k}a": (0, b"k", "w1"),
        "b": (1, b"b", "w1"),
        "c": (3, b"c", "w1"),
    }
    for t in told.values():
        assert (t.report.kind, t.report.attempt, t.report.error) == (ReportKind.SUCCEEDED, 1, "")
        assert t.report.fetched_ms <= t.report.started_ms <= t.report.ended_ms
    assert len({t.report.run_id for t in told.values()}) == 3


def test_what_fails_is_reported_with_its_reason(stage: Stage) -> None:
    app = App()

    @app.handler()
    def refuse(_ctx: Context) -> None:
        raise ValueError("no such user")

    @app.handler()
    async def quit_loop(_ctx: Context) -> None:
        raise SystemExit(3)

    @app.handler()
    def forgotten_async(ctx: Context) -> object:
        return quit_loop(ctx)

    stage.put(refuse.bind(), "refuse")
    stage.put(quit_loop.bind(), "quit")
    stage.put(forgotten_async.bind(), "forgotten")
    stage.put(BoundCall("nowhere", "default", b""), "unknown")
    stage.put(BoundCall("refuse", "default", b'{"extra": 1}'), "misfit")
    stage.put_bytes(encode_work(Work(0, 1, "bodyless", 5, 1, Rev(0, 0), 6, 10_000, 60_000, b"?")))
    with local_worker(stage, app) as worker:
        told = {t.report.task_id: t.report for t in stage.reports(6)}
        stage.await_committed({0: 6})
    unknown = told.pop("unknown")
    assert (unknown.kind, unknown.handler, unknown.error) == (ReportKind.RELEASED, "nowhere", "")
    assert {report.kind for report in told.values()} == {ReportKind.FAILED}
    assert {task for task, report in told.items() if report.retry_ms == NO_RETRY} == {"bodyless"}
    assert told["refuse"].error == "ValueError: no such user"
    assert told["quit"].error == "SystemExit: 3"
    assert told["forgotten"].error.startswith("TypeError: the handler returned a coroutine")
    assert "unexpected keyword argument 'extra'" in told["misfit"].error
    assert told["bodyless"].error.startswith("MalformedValue: ")
    kinds = {event["kind"] for event in worker.events if event["event"] == "alarm"}
    assert kinds == {"unknown_handler", "undecodable_body"}


def test_an_unreadable_record_is_an_alarm_and_is_passed(stage: Stage) -> None:
    app = App()
    ok = app.handler("ok")(lambda _ctx: None)
    stage.put_bytes(b"rubbish")
    stage.put(ok.bind(), "after")
    with local_worker(stage, app) as worker:
        assert [t.report.task_id for t in stage.reports(1)] == ["after"]
        stage.await_committed({0: 2})
    (alarm,) = (event for event in worker.events if event["event"] == "alarm")
    assert alarm["kind"] == "undecodable_work"
    assert "work.default[0]@0 is no Work record" in str(alarm["reason"])


def test_a_record_of_a_newer_release_stops_its_partition_and_no_other(stage: Stage) -> None:
    app = App()
    ok = app.handler("ok")(lambda _ctx: None)
    stage.put(ok.bind(), "before")
    stage.put_bytes(b"\xc3\x01" + b"newer..." + b"datum")
    stage.put(ok.bind(), "behind")
    with local_worker(stage, app) as worker:
        worker.wait_event("alarm", kind="newer_schema")
        stage.put(ok.bind(), "beside", partition=1)
        assert {t.report.task_id for t in stage.reports(2)} == {"before", "beside"}
        stage.await_committed({0: 1, 1: 1})
    assert stage.committed() == {0: 1, 1: 1}


def test_no_commit_passes_a_report_that_the_broker_refuses(stage: Stage) -> None:
    app = App()
    ok = app.handler("ok")(lambda _ctx: None)
    stage.put(ok.bind(), "nowhere", bucket=99)
    stage.put(ok.bind(), "behind")
    stage.put(ok.bind(), "beside", partition=1)
    with local_worker(stage, app, grace_s=0.2) as worker:
        worker.wait_event("alarm", kind="reports_refused")
        assert {t.report.task_id for t in stage.reports(2)} == {"behind", "beside"}
        stage.await_committed({1: 1})
    assert stage.committed() == {1: 1}
    assert next(e["abandoned"] for e in worker.events if e["event"] == "drained") == 1


def test_one_process_serves_several_queues(stage: Stage) -> None:
    app = App()
    here = app.handler("here")(lambda _ctx: None)
    there = app.handler("there", queue="other")(lambda _ctx: None)
    with local_worker(stage, app, queues=["default", "other"]) as worker:
        assert worker.events[-1]["queues"] == ["default", "other"]
        stage.put(here.bind(), "a")
        stage.put(there.bind(), "b")
        assert {t.report.task_id for t in stage.reports(2)} == {"a", "b"}
        stage.await_committed({0: 1}, "other")


def test_a_worker_that_cannot_work_says_so_at_once(stage: Stage, prefix: str) -> None:
    app = App()
    app.handler("ok")(lambda _ctx: None)
    with pytest.raises(UnknownQueue, match="queue 'mail' does not exist"):
        LocalWorker(stage, app, queues=["mail"]).end()
    with pytest.raises(InvalidInput, match="no handlers"):
        LocalWorker(stage, App()).end()
    elsewhere = Settings(stage.settings.bootstrap, f"no{prefix}")
    with pytest.raises(LayoutMismatch, match="tickstream topics create"):
        run_worker(
            app,
            elsewhere,
            queues=["default"],
            concurrency=1,
            grace_s=1,
            worker_id="w",
            events=lambda _event: None,
            stop=threading.Event(),
        )
