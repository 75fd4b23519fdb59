"""Whole worker processes killed between side effect and report: what their redelivered work leaves behind."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.kafka.lease_kit import LEASE_MS, Crew, now_ms, show
from tests.stores import paying_app
from tickstream.model import DEFAULT_TERMS, Outcome
from tickstream.worker import PostgresIdempotency

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(600)]

KILLS_WITH_STORE = 200
KILLS_WITHOUT = 20
OUTCOMES_S = 500.0
PATIENT = DEFAULT_TERMS._replace(lease_ms=LEASE_MS, attempts=1_000, backoff_ms=50, backoff_cap_ms=50)
"""Whoever waits in the process that is killed loses its lease, and that is a failure: none shall be the last."""
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
    broker: str, prefix: str, database: str, tmp_path: Path
) -> None:
    queues = tuple(f"q{n}" for n in range((KILLS_WITH_STORE + KILLS_WITHOUT) // EACH))
    with_store = set(queues[: KILLS_WITH_STORE // EACH])
    tasks = {f"{queue}:{n}": queue for queue in queues for n in range(EACH)}
    with Crew(broker, prefix, tmp_path / "data", queues=queues) as crew:
        crew.wait_active(crew.dispatcher("dispatcher"))
        began = now_ms()
        for task_id, queue in tasks.items():
            handler = paying_app.pay_once if queue in with_store else paying_app.pay
            crew.put_later(handler.bind(database), task_id, queue, began, PATIENT)
        crew.flush()
        done = threading.Event()
        with ThreadPoolExecutor(len(queues)) as pool:
            crews = [pool.submit(killed_one_after_the_other, crew, queue, done) for queue in queues]
            try:
                history = crew.outcomes(*tasks, timeout_s=OUTCOMES_S)
            finally:
                done.set()
            kills = sum(future.result() for future in crews)
    show("workers killed", kills=kills, took_ms=now_ms() - began, expired=len(history) - len(tasks))
    ends = {h.task_id: h.outcome for h in history if h.outcome.terminal}
    assert ends == dict.fromkeys(tasks, Outcome.SUCCEEDED)
    paid = Counter(column(database, "payments"))
    assert kills == len(column(database, "deaths")) == len(tasks)
    assert {paid[task_id] for task_id, queue in tasks.items() if queue in with_store} == {1}
    assert all(paid[task_id] > 1 for task_id, queue in tasks.items() if queue not in with_store)


def column(database: str, table: str) -> list[str]:
    with psycopg.connect(database) as connection:
        return [str(task_id) for (task_id,) in connection.execute(f"SELECT task_id FROM {table}")]


def killed_one_after_the_other(crew: Crew, queue: str, done: threading.Event) -> int:
    """Start a worker of the queue whenever the last one was killed, until `done`; how many were."""
    kills = 0
    while True:
        worker = paying_app.start_worker(crew.settings, queue)
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
