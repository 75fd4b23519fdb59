"""What handlers and coroutines ask of the whole system: a dispatcher, a worker and a broker that are real."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.kafka.rig import Rig
from tests.kafka.worker_kit import LocalWorker
from tests.waiting import eventually
from tickstream import App, AsyncClient, Client, Context, Fence, Item, MemoryIdempotency, Retry, VerdictKind
from tickstream.model import Outcome

WAIT = timedelta(seconds=20)
SOON = Retry(attempts=3, backoff=timedelta(milliseconds=50), never=(KeyError,))


@pytest.fixture(scope="module")
def rig(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One dispatcher for all of this module's tests: none of them disturbs it."""
    with Rig(broker, f"handlers{time.time_ns()}.", tmp_path_factory.mktemp("data")) as rig:
        rig.wait_active(rig.dispatcher("only"))
        yield rig


def in_a(unit: timedelta) -> datetime:
    return datetime.now(UTC) + unit


def test_a_coroutine_schedules_asks_and_cancels(rig: Rig) -> None:
    far = in_a(timedelta(hours=1))

    async def story() -> None:
        async with AsyncClient(rig.settings) as client:
            receipts = await asyncio.gather(
                *(client.schedule(f"async:{n}", run_at=far, payload=b"{}", handler="x") for n in range(500))
            )
            assert len(set(receipts)) == 500
            verdict = await client.schedule("async:1", run_at=far, payload=b"{}", handler="y", wait=WAIT)
            assert verdict.kind is VerdictKind.REPLACED
            verdicts = await asyncio.gather(*(client.cancel(f"async:{n}", timeout=WAIT) for n in range(40)))
            assert {verdict.kind for verdict in verdicts} == {VerdictKind.CANCELLED}
            many = [Item(f"async-many:{n}", run_at=far, payload=b"", handler="x") for n in range(1_000)]
            kinds = [
                result.verdict.kind
                async for result in client.schedule_many(many, wait=WAIT)
                if result.verdict is not None
            ]
            assert Counter(kinds) == {VerdictKind.SCHEDULED: 1_000}

    asyncio.run(story())


def test_attempts_follow_ups_and_what_is_made_once(rig: Rig) -> None:
    app, store = App(), MemoryIdempotency()
    charged: list[int] = []
    fences: list[Fence] = []
    reminded: list[str] = []
    told: list[tuple[str, str]] = []
    app.on_failure(lambda _ctx, error: told.append(("failure", str(error))))
    app.on_success(lambda ctx, _result: told.append(("success", ctx.task_id.partition("@")[0])))
    app.on_dead(lambda ctx, _error: told.append(("dead", ctx.task_id)))

    @app.handler(retry=SOON)
    def order(ctx: Context, amount: int) -> dict[str, int]:
        with ctx.once(store) as run:
            if run.first:
                charged.append(amount)
                run.result = {"charge": 7}
        fences.append(ctx.fence)
        ctx.schedule("remind", remind.bind(), delay=timedelta(milliseconds=10))
        if ctx.attempt == 1:
            raise OSError("after the effect")
        result: dict[str, int] = run.result
        return result

    @app.handler()
    async def remind(ctx: Context) -> None:
        reminded.append(ctx.task_id)

    @app.handler(retry=SOON)
    def hopeless(_ctx: Context) -> None:
        raise KeyError("no such customer")

    async def story() -> None:
        async with AsyncClient(rig.settings) as client:
            now = in_a(timedelta(0))
            await client.schedule("order:1", run_at=now, call=order.bind(100))
            await client.schedule("hopeless:1", run_at=now, call=hopeless.bind())

    worker = LocalWorker(rig, app)  # type: ignore[arg-type]
    try:
        worker.wait_event("ready")
        asyncio.run(story())
        ended = {("success", "order:1"), ("dead", "hopeless:1")}
        assert eventually(lambda: ended <= set(told) and told.count(("success", "order:1")) == 2, 20), told
    finally:
        worker.end()
    rig.wait_applied()
    outcomes = {(h.task_id, h.attempt): h for h in rig.history() if not h.task_id.startswith("async")}
    follow_up = reminded[0]
    assert {key: h.outcome for key, h in outcomes.items()} == {
        ("order:1", 1): Outcome.ATTEMPT_FAILED,
        ("order:1", 2): Outcome.SUCCEEDED,
        (follow_up, 1): Outcome.SUCCEEDED,
        ("hopeless:1", 1): Outcome.DEAD,
    }
    assert outcomes["order:1", 2].result == b'{"charge":7}'
    assert charged == [100]
    assert reminded == [follow_up]
    assert follow_up.startswith("order:1@")
    assert fences == sorted(set(fences))
    assert len(fences) == 2


def test_a_run_in_flight_is_asked_to_stop_and_not_tried_again(rig: Rig) -> None:
    app = App()
    claimed, ended = threading.Event(), threading.Event()
    stopped: list[bool] = []

    @app.handler(retry=SOON)
    def long(ctx: Context) -> None:
        assert ctx.fence > (0, 0)
        claimed.set()
        deadline = time.monotonic() + 20
        while not ctx.cancelled and time.monotonic() < deadline:
            time.sleep(0.01)
        stopped.append(ctx.cancelled)
        ended.set()
        raise InterruptedError("asked to stop")

    worker = LocalWorker(rig, app)  # type: ignore[arg-type]
    try:
        worker.wait_event("ready")
        with Client(rig.settings) as client:
            client.schedule("long:1", run_at=in_a(timedelta(0)), call=long.bind(), wait=WAIT)
            assert claimed.wait(20)
            # Best effort: a request that overtakes the claim finds no holder to ask.
            while not ended.wait(0.5):
                verdict = client.cancel("long:1", running=True, timeout=WAIT)
                assert (verdict.kind, len(verdict.in_flight)) in {(VerdictKind.TOO_LATE, n) for n in (0, 1)}
    finally:
        worker.end()
    rig.wait_applied()
    told = [(h.attempt, h.outcome) for h in rig.history() if h.task_id == "long:1"]
    assert (stopped, told) == ([True], [(1, Outcome.DEAD)])
