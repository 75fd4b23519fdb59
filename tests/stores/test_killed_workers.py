"""Whole worker processes killed between side effect and report: what their redelivered work leaves behind."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.kafka.worker_kit import BUCKETS, Stage
from tests.stores import paying_app
from tests.waiting import eventually
from tickstream.model import ReportKind
from tickstream.worker import PostgresIdempotency

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(600)]

KILLS_WITH_STORE = 200
KILLS_WITHOUT = 20
DEATHS_S = 400.0
EACH = 10
"""Tasks of one queue, and so kills of its workers, one after the other; the queues go on side by side."""


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        PostgresIdempotency.prepare(connection)
        for table in paying_app.TABLES:
            connection.execute(table)
        yield postgres
        connection.execute("DROP TABLE payments, deaths, tickstream_once")


def test_a_worker_killed_after_each_payment_pays_once_with_the_store_and_again_without(
    broker: str, prefix: str, database: str
) -> None:
    queues = tuple(f"q{n}" for n in range((KILLS_WITH_STORE + KILLS_WITHOUT) // EACH))
    with_store = set(queues[: KILLS_WITH_STORE // EACH])
    stage = Stage(broker, prefix, queues)
    tasks = {f"{queue}:{n}": queue for queue in queues for n in range(EACH)}
    for number, (task_id, queue) in enumerate(tasks.items()):
        handler = paying_app.pay_once if queue in with_store else paying_app.pay
        stage.put(handler.bind(database)._replace(queue=queue), task_id, partition=number % BUCKETS)
    done = threading.Event()
    with ThreadPoolExecutor(len(queues)) as crews:
        ended = [crews.submit(killed_one_after_the_other, stage, queue, done) for queue in queues]
        try:
            # Not a report before: each worker dies with what it has not sent.
            assert eventually(lambda: len(column(database, "deaths")) == len(tasks), DEATHS_S)
            succeeded: set[str] = set()
            while succeeded < tasks.keys():
                told = stage.reports(1)
                succeeded |= {t.report.task_id for t in told if t.report.kind is ReportKind.SUCCEEDED}
        finally:
            done.set()
        kills = sum(future.result() for future in ended)
    paid = Counter(column(database, "payments"))
    assert kills == len(tasks)
    assert {paid[task_id] for task_id, queue in tasks.items() if queue in with_store} == {1}
    assert all(paid[task_id] > 1 for task_id, queue in tasks.items() if queue not in with_store)


def column(database: str, table: str) -> list[str]:
    with psycopg.connect(database) as connection:
        return [str(task_id) for (task_id,) in connection.execute(f"SELECT task_id FROM {table}")]


def killed_one_after_the_other(stage: Stage, queue: str, done: threading.Event) -> int:
    """Start a worker of the queue whenever the last one was killed, until `done`; how many were."""
    kills = 0
    while True:
        worker = paying_app.start_worker(stage.settings, queue)
        try:
            while worker.is_alive() and not done.is_set():
                worker.join(0.05)
            if worker.is_alive():
                return kills
        finally:
            worker.kill()
            worker.join()
        assert worker.exitcode == -signal.SIGKILL
        kills += 1
