"""Real servers for the idempotency stores: each started once per test process, on a free port, in a directory of its own."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
import redis

from tests.waiting import eventually

UP_S = 30.0
SERVER_USER = "postgres"
"""Whom Debian's package adds: PostgreSQL refuses to run as root."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _server(command: Sequence[str], answers: Callable[[], bool], log: Path) -> Iterator[None]:
    """A server process, ended by its pid however the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: answers() or process.poll() is not None, UP_S)
        assert answers(), f"{command[0]} did not start:\n{log.read_text()}"
        yield
    finally:
        process.terminate()
        try:
            process.wait(UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _as_server_user(command: Sequence[str]) -> list[str]:
    """The command as somebody else, where this is root."""
    if os.geteuid() != 0:
        return list(command)
    # setpriv replaces itself by the command, so that the pid is the server's.
    return ["setpriv", f"--reuid={SERVER_USER}", f"--regid={SERVER_USER}", "--clear-groups", *command]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a PostgreSQL of this run."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if os.geteuid() == 0 and not any(user.pw_name == SERVER_USER for user in pwd.getpwall()):
        pytest.skip(f"root may not run PostgreSQL, and there is no user {SERVER_USER}")
    programs = found[-1] if found else Path(str(on_path)).parent
    with tempfile.TemporaryDirectory(prefix="tickstream-postgres-") as home:
        data, port = Path(home, "data"), _free_port()
        data.mkdir()
        if os.geteuid() == 0:
            for directory in (home, data):
                shutil.chown(directory, SERVER_USER)
        initdb = [
            str(programs / "initdb"),
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--username=tester",
        ]
        made = subprocess.run(
            _as_server_user([*initdb, str(data)]), capture_output=True, text=True, check=False, cwd=home
        )
        assert made.returncode == 0, made.stderr
        # -F: no fsync; what these tests kill are clients, never the server.
        server = [
            str(programs / "postgres"),
            "-F",
            "-D",
            str(data),
            "-p",
            str(port),
            "-k",
            home,
            "-h",
            "127.0.0.1",
        ]
        conninfo = f"host=127.0.0.1 port={port} user=tester dbname=postgres"

        def answers() -> bool:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(conninfo):
                return True
            return False

        with _server(_as_server_user(server), answers, Path(home, "log")):
            yield conninfo


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a Redis of this run."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="tickstream-redis-") as home:
        port = _free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", home, "--save", ""]
        url = f"redis://127.0.0.1:{port}/0"

        def answers() -> bool:
            with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
                return bool(client.ping())
            return False

        with _server(command, answers, Path(home, "log")):
            yield url
