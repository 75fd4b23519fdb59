"""Settings as one frozen value, made once at the edge and passed down.

The environment is read here and in cli/, nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tickstream.errors import InvalidInput

MAX_PAYLOAD_BYTES: Final = 256 * 1024
MAX_COMMAND_BYTES: Final = 512 * 1024
"""Of a message on `commands`."""
MAX_RECORD_BYTES: Final = 1024 * 1024
"""Of every message further downstream: limits only grow on the way."""
MIN_PAST_MS: Final = 3_600_000
"""How far in the past a run_at may lie at least without allow_past."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the cluster is, and the names in it."""

    bootstrap: str
    prefix: str = "tickstream."
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Further librdkafka settings, such as security.protocol."""
    format_write: int | None = None
    """The version of the wire format that is written, None: the newest. Kept back while older releases run."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """From TICKSTREAM_BOOTSTRAP, TICKSTREAM_PREFIX, TICKSTREAM_FORMAT_WRITE and TICKSTREAM_KAFKA_<SETTING>.

        TICKSTREAM_KAFKA_SASL_MECHANISM=PLAIN sets librdkafka's `sasl.mechanism`.
        Raises InvalidInput when TICKSTREAM_BOOTSTRAP is not set, or the format is no number.
        """
        env = os.environ if environ is None else environ
        bootstrap = env.get("TICKSTREAM_BOOTSTRAP", "")
        if not bootstrap:
            raise InvalidInput(
                "no broker is named: set TICKSTREAM_BOOTSTRAP=host:port or pass --bootstrap (a local one starts with: tickstream dev up)"
            )
        marker = "TICKSTREAM_KAFKA_"
        extra = {
            k[len(marker) :].lower().replace("_", "."): v for k, v in env.items() if k.startswith(marker)
        }
        written = env.get("TICKSTREAM_FORMAT_WRITE", "")
        if written and not written.isdigit():
            raise InvalidInput(f"TICKSTREAM_FORMAT_WRITE={written!r}: the number of a format, such as 1")
        format_write = int(written) if written else None
        return cls(bootstrap, env.get("TICKSTREAM_PREFIX", "tickstream."), extra, format_write)


def chosen(settings: Settings | None, bootstrap: str | None, prefix: str | None) -> Settings:
    """`settings`, or those of the environment with what is given in their place. Raises InvalidInput."""
    if settings is not None:
        if bootstrap is not None or prefix is not None:
            raise InvalidInput("give either settings, or bootstrap= and prefix=, not both")
        return settings
    found = Settings(bootstrap) if bootstrap is not None else Settings.from_env()
    return found if prefix is None else replace(found, prefix=prefix)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine's decisions depend on besides their inputs."""

    done_retention_ms: int = 3_600_000
    """How long the stub of an ended task answers for it; 0 turns stubs off."""

    @property
    def past_limit_ms(self) -> int:
        """How far back a run_at may lie without allow_past.

        Never further than stubs remember, so that a late repeat of a Schedule cannot run twice.
        """
        return max(self.done_retention_ms, MIN_PAST_MS)


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """Limits and rhythms of a lane (ms unless a name says otherwise)."""

    batch_open_ms: int = 10
    """How long a started batch waits for more."""
    idle_wait_ms: int = 200
    """The longest wait in one poll, so that a stop request is seen soon."""
    batch_records: int = 5_000
    batch_bytes: int = 8 * 1024 * 1024
    due_page: int = 400
    """Due entries taken per bucket and batch. A command waits for the pages of a spike that are under way."""
    probe_ms: int = 1_000
    """Rhythm of the end probe and of an idle bucket's Progress."""
    transaction_timeout_ms: int = 10_000
    message_timeout_ms: int = 8_000
    input_window_ms: int = 24 * 3_600_000
    """How long commands and reports are kept at least, also when they are applied."""
    session_ms: int = 6_000
    """Session of the dispatcher group: how soon a dead dispatcher is noticed."""


def cache_dir() -> Path:
    """Where downloads are kept between runs: XDG_CACHE_HOME, else `~/.cache`, plus `tickstream`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tickstream"


def dashboard_url() -> str:
    """Where `query` and `get` go unless told otherwise: TICKSTREAM_DASHBOARD."""
    return os.environ.get("TICKSTREAM_DASHBOARD", "http://127.0.0.1:8080")


def dashboard_token(environ: Mapping[str, str] | None = None) -> str | None:
    """The bearer token for that dashboard, None: it asks for none.

    TICKSTREAM_DASHBOARD_TOKEN, or the first line of the file that TICKSTREAM_DASHBOARD_TOKEN_FILE names.
    Raises InvalidInput when that file cannot be read.
    """
    env = os.environ if environ is None else environ
    text, file = (env.get(f"TICKSTREAM_DASHBOARD_TOKEN{part}") for part in ("", "_FILE"))
    return text or (first_line("TICKSTREAM_DASHBOARD_TOKEN_FILE", Path(file)) if file else None)


def first_line(name: str, file: Path) -> str:
    """The token in a file. `name`: what named the file. Raises InvalidInput."""
    try:
        token = file.read_text().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{name} {file}: it cannot be read ({error})") from error
    if not token:
        # An empty token would let everybody in who sends none worth the name.
        raise InvalidInput(f"{name} {file}: its first line is empty; write the token there")
    return token
