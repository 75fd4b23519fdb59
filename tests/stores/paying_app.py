"""An application whose worker dies between a payment and its report, once for every task."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from typing import Any

import psycopg

from tests.kafka.lease_kit import WORKER_SESSION_MS
from tickstream.settings import Settings
from tickstream.worker import App, Context
from tickstream.worker.runtime import run_worker

TABLES = (
    "CREATE TABLE payments (task_id text NOT NULL)",
    "CREATE TABLE deaths (task_id text PRIMARY KEY)",
)
app = App()

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.stores.paying_app"])


@app.handler()
def pay_once(ctx: Context, conninfo: str) -> None:
    """Pays as it should be written."""
    with psycopg.connect(conninfo) as connection, ctx.once(connection) as run:
        if run.first:
            _pay(connection, ctx)
    _die_if_first(ctx, conninfo)


@app.handler()
def pay(ctx: Context, conninfo: str) -> None:
    """The same without a store."""
    with psycopg.connect(conninfo) as connection:
        _pay(connection, ctx)
    _die_if_first(ctx, conninfo)


def _pay(connection: psycopg.Connection[Any], ctx: Context) -> None:
    connection.execute("INSERT INTO payments (task_id) VALUES (%s)", (ctx.task_id,))


def _die_if_first(ctx: Context, conninfo: str) -> None:
    """The payment is committed and the run not reported: the whole process ends here, as by a power cut."""
    with psycopg.connect(conninfo) as connection:
        first = connection.execute(
            "INSERT INTO deaths (task_id) VALUES (%s) ON CONFLICT DO NOTHING", (ctx.task_id,)
        ).rowcount
    if first:
        os.kill(os.getpid(), signal.SIGKILL)


def start_worker(settings: Settings, queue: str) -> Any:
    """A worker process of one queue, one run at a time. Forked from a process that has all modules loaded."""
    process = _processes.Process(target=_work, args=(settings, queue), daemon=True)
    process.start()
    return process


def _work(settings: Settings, queue: str) -> None:
    run_worker(
        app,
        settings,
        queues=[queue],
        concurrency=1,
        grace_s=1,
        worker_id=f"{queue}-{os.getpid()}",
        events=lambda _event: None,
        stop=threading.Event(),
        session_ms=WORKER_SESSION_MS,
    )
