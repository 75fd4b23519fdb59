"""Queues that share a worker, and what it answers when asked how it is."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.kafka.worker_kit import DEADLINE_S, Stage, eventually, local_worker
from tickstream.model import ReportKind
from tickstream.worker import App, Context
from tickstream.worker.fair import Share


@pytest.fixture
def stage(broker: str, prefix: str) -> Iterator[Stage]:
    stage = Stage(broker, prefix, ("default", "other"))
    yield stage
    stage.close()


def test_slots_are_shared_by_weight_and_a_limit_leaves_room(stage: Stage) -> None:
    app, gate, order = App(), threading.Semaphore(0), []
    lock, most, running = threading.Lock(), {"a": 0, "b": 0}, {"a": 0, "b": 0}

    def work(name: str) -> None:
        with lock:
            order.append(name)
            running[name] += 1
            most[name] = max(most[name], running[name])
        gate.acquire(timeout=DEADLINE_S)
        with lock:
            running[name] -= 1

    a = app.handler("a")(lambda _ctx: work("a"))
    b = app.handler("b", queue="other")(lambda _ctx: work("b"))
    shares = {"default": Share(3), "other": Share(1, limit=1)}
    with local_worker(stage, app, queues=shares, concurrency=4, grace_s=20.0):
        for n in range(8):
            stage.put(b.bind(), f"b{n}", partition=n % 4)
        eventually(lambda: dict(running), lambda found: found == {"a": 0, "b": 1})
        for n in range(8):
            stage.put(a.bind(), f"a{n}", partition=n % 4)
        eventually(lambda: dict(running), lambda found: found == {"a": 3, "b": 1})
        gate.release(1_000)
        told = stage.outcomes(16)
    assert {t.report.kind for t in told} <= {ReportKind.SUCCEEDED, ReportKind.RELEASED}
    assert most["b"] == 1
    assert most["a"] >= 3


def ask(port: object, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_and_metrics_follow_the_worker(stage: Stage) -> None:
    app, gate = App(), threading.Event()

    @app.handler()
    def hold(_ctx: Context) -> None:
        gate.wait(DEADLINE_S)

    try:
        with local_worker(stage, app, health=("127.0.0.1", 0)) as worker:
            port = next(e["port"] for e in worker.events if e["event"] == "health")
            assert [ask(port, path)[0] for path in ("/livez", "/readyz", "/nowhere")] == [200, 200, 404]
            stage.put(hold.bind(), "held")
            stage.report_of(ReportKind.CLAIMED, "held")
            expected = (
                'tickstream_worker_running{executor="thread"} 1.0',
                'tickstream_worker_unacknowledged{queue="default"} 1.0',
                'tickstream_worker_reports_total{kind="claimed",queue="default"} 1.0',
            )
            eventually(lambda: ask(port, "/metrics")[1], lambda text: all(line in text for line in expected))
            worker.stop.set()
            worker.wait_event("draining")
            assert ask(port, "/readyz")[0] == 503
            gate.set()
    finally:
        gate.set()


def test_runs_of_a_process_have_no_clashing_ids(stage: Stage) -> None:
    app = App()

    @app.handler()
    def echo(ctx: Context) -> dict[str, str]:
        return {"run": ctx.run_id.hex()}

    for n in range(50):
        stage.put(echo.bind(), f"t{n}", partition=n % 4)
    with local_worker(stage, app):
        told = stage.outcomes(50)
    assert {json.loads(t.report.result)["run"] for t in told} == {t.report.run_id.hex() for t in told}
    assert len({t.report.run_id for t in told}) == 50
