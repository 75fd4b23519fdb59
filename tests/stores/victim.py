"""Attempts in processes of their own, which tests kill at a point they name."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

import psycopg

from tickstream.worker import Context, Fence

OCCURRENCE = 1_767_225_600_000
DEADLINE_S = 30.0

Attempt = Callable[[str, str, int, Callable[[str], None]], None]
"""(conninfo, task_id, attempt, what to call at the points at which it may be killed)."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.stores.victim"])


def context(task_id: str, attempt: int) -> Context:
    return Context(
        task_id, OCCURRENCE, attempt, run_id=attempt.to_bytes(16), fence=Fence(attempt, 10 * attempt)
    )


def pay_once(conninfo: str, task_id: str, attempt: int, reached: Callable[[str], None]) -> None:
    """A handler that pays, as it should be written."""
    ctx = context(task_id, attempt)
    with psycopg.connect(conninfo) as connection:
        with ctx.once(connection) as run:
            if run.first:
                connection.execute(
                    "INSERT INTO payments (task_id, attempt) VALUES (%s, %s)", (task_id, attempt)
                )
            reached("effect")
        connection.commit()
        reached("commit")


def pay(conninfo: str, task_id: str, attempt: int, reached: Callable[[str], None]) -> None:
    """The same without a store."""
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO payments (task_id, attempt) VALUES (%s, %s)", (task_id, attempt))
        reached("effect")
        connection.commit()
        reached("commit")


def _run(attempt: Attempt, arguments: tuple[str, str, int], die_at: str, parent: Pipe) -> None:
    def reached(point: str) -> None:
        if point == die_at:
            parent.send(point)
            threading.Event().wait()

    attempt(*arguments, reached)


def kill_at(point: str, attempt: Attempt, conninfo: str, task_id: str, number: int) -> None:
    """Run an attempt in a process, and SIGKILL it when it gets to `point`."""
    ours, theirs = _processes.Pipe()
    process: Any = _processes.Process(
        target=_run, args=(attempt, (conninfo, task_id, number), point, theirs), daemon=True
    )
    process.start()
    try:
        assert ours.poll(DEADLINE_S), f"attempt {number} of {task_id} never got to {point}"
        assert ours.recv() == point
    finally:
        process.kill()
        process.join()
