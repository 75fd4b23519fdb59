"""The command line as a stranger meets it: quick help, exit codes by kind of error, no tracebacks."""

import re
import socket
import subprocess
import sys

import pytest

from tests.cli import Cli
from tickstream.cli.main import exit_code
from tickstream.errors import (
    BrokerUnavailable,
    DashboardUnavailable,
    InvalidTaskId,
    LayoutMismatch,
    SendFailed,
    TickstreamError,
    VerdictTimeout,
)

HEAVY = ("confluent_kafka", "rocksdict", "fastavro", "httpx", "starlette", "uvicorn", "jgo")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("TICKSTREAM_BOOTSTRAP", raising=False)
    return Cli(capsys)


def test_help_loads_nothing_heavy() -> None:
    source = (
        "import sys\n"
        "from tickstream.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    assert "tickstream demo" in done.stdout
    assert sorted(set(HEAVY) & set(done.stderr.split())) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidTaskId(""), 2),
        (BrokerUnavailable("x"), 3),
        (DashboardUnavailable("x"), 3),
        (SendFailed("x"), 3),
        (VerdictTimeout("a", "0:0:0", 1), 3),
        (LayoutMismatch("x"), 1),
        (TickstreamError("x"), 1),
    ],
)
def test_errors_become_exit_codes(error: TickstreamError, code: int) -> None:
    assert exit_code(error) == code


def test_without_an_address_the_error_says_what_to_do(cli: Cli) -> None:
    code, out, err = cli("topics", "check")
    assert (code, out) == (2, "")
    assert err.startswith("error: no broker is named")
    assert "tickstream dev up" in err


def test_the_version(cli: Cli) -> None:
    code, out, _ = cli("--version")
    assert code == 0
    assert re.fullmatch(r"tickstream \d+\.\d+\.\d+\n", out)


def test_a_port_that_is_taken_is_told_before_kafka_starts(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        code, _, err = cli("dev", "up", "--port", str(held.getsockname()[1]))
    assert code == 2
    assert "pass another --port" in err


def test_an_address_where_nobody_answers(cli: Cli) -> None:
    code, _, err = cli("topics", "check", "--bootstrap", "127.0.0.1:1")
    assert code == 3
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [("topics", "create", "--buckets", "0"), ("nonsense",), ("topics", "nonsense")]
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert "Usage" in err
