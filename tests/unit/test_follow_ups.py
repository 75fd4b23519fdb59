"""Follow-up work: one task however many attempts ask for it, and no success before the broker has it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.client_doubles import FakeCluster
from tickstream.errors import (
    BrokerUnavailable,
    InvalidInput,
    InvalidTaskId,
    SendFailed,
    TickstreamError,
    UnknownQueue,
)
from tickstream.ingest import Client
from tickstream.kafka import KafkaError
from tickstream.model import BoundCall, IfExists, Retry, bucket_of
from tickstream.testing import Harness
from tickstream.worker import App, Context, Fence, child
from tickstream.worker.follow_up import FollowUp

OCCURRENCE = 1_767_225_600_123
CALL = BoundCall("remind", "default", b"{}")


class Link:
    """A worker with a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.said: list[tuple[int, str]] = []

    def fence(self) -> Fence:
        return Fence(7, 9)

    def progress(self, thousandths: int, note: str) -> None:
        self.said.append((thousandths, note))

    def schedule(self, made: FollowUp) -> FollowUp:
        return made.sent_by(self._client)


def test_a_unit_test_sees_what_a_handler_schedules() -> None:
    ctx = Context("{acme}order:1", OCCURRENCE)
    ctx.schedule("remind", CALL, delay=timedelta(hours=1))
    ctx.schedule("now", CALL)
    assert [(made.task_id, made.run_at_ts) for made in ctx.follow_ups] == [
        (f"{{acme}}order:1@{OCCURRENCE}/remind", OCCURRENCE + 3_600_000),
        (f"{{acme}}order:1@{OCCURRENCE}/now", OCCURRENCE),
    ]
    assert bucket_of(ctx.follow_ups[0].task_id, 64) == bucket_of("{acme}order:1", 64)


def test_every_attempt_asks_for_the_same_task() -> None:
    cluster = FakeCluster()
    app = App()

    @app.handler()
    def order(ctx: Context) -> None:
        ctx.schedule("remind", CALL, delay=timedelta(hours=1), labels={"of": "order"})

    with cluster.client() as client:
        for attempt in (1, 2):
            order.call(Context("order:1", OCCURRENCE, attempt, link=Link(client)), b"")
            assert cluster.producer.waiting == []
    first, second = cluster.commands()
    assert (first.task_id, first.when, first.body) == (second.task_id, second.when, second.body)
    assert (first.options.if_exists, first.options.allow_past) == (IfExists.REJECT, True)


def test_no_run_succeeds_before_the_broker_has_what_it_scheduled() -> None:
    cluster = FakeCluster()
    app = App()
    succeeded: list[str] = []
    app.on_success(lambda ctx, _result: succeeded.append(ctx.task_id))

    @app.handler()
    def order(ctx: Context) -> None:
        ctx.schedule("remind", CALL)

    @app.handler()
    async def order_async(ctx: Context) -> None:
        ctx.schedule("remind", CALL)

    with cluster.client() as client:
        for call in (
            lambda ctx: order.call(ctx, b""),
            lambda ctx: asyncio.run(order_async.call(ctx, b"")),
        ):
            cluster.producer.failing = [KafkaError(KafkaError._MSG_TIMED_OUT)]
            with pytest.raises(SendFailed):
                call(Context("order:1", OCCURRENCE, link=Link(client)))
            call(Context("order:2", OCCURRENCE, link=Link(client)))
    assert succeeded == ["order:2", "order:2"]


def test_an_id_that_would_be_too_long_is_a_digest() -> None:
    long = Context("x" * 255, OCCURRENCE)
    ids = {long.schedule(name, CALL).task_id for name in ("a", "b", "a")}
    assert len(ids) == 2
    assert all(task_id.startswith("follow-up:") and len(task_id) == 42 for task_id in ids)


def test_follow_ups_that_make_no_sense_are_refused() -> None:
    ctx = Context("order:1", OCCURRENCE)
    with pytest.raises(InvalidInput, match="needs a name"):
        ctx.schedule("", CALL)
    with pytest.raises(InvalidInput, match="is negative"):
        ctx.schedule("a", CALL, delay=timedelta(seconds=-1))
    with pytest.raises(InvalidInput, match="not both"):
        ctx.schedule("a", CALL, delay=timedelta(1), run_at=datetime(2031, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidTaskId):
        ctx.schedule("a\n", CALL)
    assert ctx.follow_ups == []


def test_fence_and_progress_reach_the_worker_and_do_nothing_without_one() -> None:
    with FakeCluster().client() as client:
        link = Link(client)
        ctx = Context("order:1", OCCURRENCE, link=link)
        assert ctx.fence == Fence(7, 9)
        ctx.progress(0.3337, "packing")
        assert link.said == [(334, "packing")]
    alone = Context("order:1", OCCURRENCE)
    alone.progress(1.0)
    assert alone.fence == Fence(0, 0)
    assert (alone.cancelled, alone.lost) == (False, False)
    with pytest.raises(InvalidInput, match="a fraction from 0 to 1"):
        alone.progress(50)


def test_the_test_kit_runs_follow_ups_and_knows_the_same_terms(tick: Harness) -> None:
    app = App()
    ran: list[str] = []

    @app.handler(retry=Retry(attempts=2, backoff=timedelta(seconds=1), cap=timedelta(seconds=1)))
    def order(ctx: Context) -> None:
        ctx.schedule("remind", remind.bind(), delay=timedelta(minutes=1))
        if ctx.attempt == 1:
            raise OSError("after it was asked for")

    @app.handler()
    def remind(ctx: Context) -> None:
        ran.append(ctx.task_id)

    tick.client.schedule("order:1", run_at=tick.now, call=order.bind(), retry=Retry(attempts=3))
    worker = tick.worker(app)
    assert [report.kind.value for report in worker.run_all()] == ["FAILED"]
    tick.advance(timedelta(seconds=2))
    assert [report.kind.value for report in worker.run_all()] == ["SUCCEEDED"]
    tick.advance(timedelta(minutes=1))
    worker.run_all()
    tick.advance(timedelta(minutes=1))
    worker.run_all()
    (task_id,) = ran
    assert task_id.startswith("order:1@")


class Parent:
    """What a run reaches its worker by, where a child asks for it."""

    def __init__(
        self, schedule: TickstreamError | None = None, settle: TickstreamError | None = None
    ) -> None:
        self._schedule = schedule
        self._settle = settle

    def fence(self) -> Fence:
        raise BrokerUnavailable("no claim")

    def progress(self, thousandths: int, note: str) -> None: ...

    def schedule(self, made: FollowUp) -> FollowUp:
        if self._schedule is not None:
            raise self._schedule
        return made._replace(submission=self)

    def receipt(self, timeout: float) -> None:
        if self._settle is not None:
            raise self._settle


def test_a_child_s_follow_up_goes_through_its_parent() -> None:
    ctx = Context("mail:1", 1_767_225_600_000, link=Parent())
    made = Context("mail:1", 1_767_225_600_000).schedule("next", CALL)
    assert child.answer(child.Schedule(made), ctx) == child.Answer()
    assert [m.task_id for m in ctx.follow_ups] == [made.task_id]
    assert child.answer(child.Settle(0), ctx) == child.Answer()


def test_a_child_is_told_why_its_follow_up_is_not_there() -> None:
    made = Context("mail:1", 1_767_225_600_000).schedule("next", CALL)
    refused = UnknownQueue("nowhere", ["default"])
    ctx = Context("mail:1", 1_767_225_600_000, link=Parent(refused, SendFailed("no ack")))
    # One that is made of other things than its text arrives as what it is a kind of.
    assert child.answer(child.Schedule(made), ctx) == child.Answer(InvalidInput, str(refused))
    assert ctx.follow_ups == []
    ctx.follow_ups.append(made._replace(submission=Parent(settle=SendFailed("no ack"))))
    assert child.answer(child.Settle(0), ctx) == child.Answer(SendFailed, "no ack")
    assert child.answer(child.AskFence(), ctx) == child.FenceIs(None, "no claim")
