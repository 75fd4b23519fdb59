"""The description of the HTTP API against the API itself: whatever the description allows is answered as it
says, and whatever it forbids is refused with a problem object.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)
from starlette.applications import Starlette

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_projection_api import NOON, FixedClock
from tickstream.projection.api import create_app
from tickstream.projection.openapi import document
from tickstream.projection.reader import IndexReader

NOT_ASKED = [unsupported_method, positive_data_acceptance, negative_data_rejection]
"""That nothing can be changed, and which values go together: test_projection_api.py asks that."""


class RushingClock(FixedClock):
    """Time to wait for a command is soon over."""

    def __init__(self) -> None:
        self._s = 0.0

    def monotonic(self) -> float:
        self._s += 1.0
        return self._s


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starlette]:
    """A dashboard over a small history in which every state occurs."""
    data_dir: Path = tmp_path_factory.mktemp("index")
    logs = [LogWriter(bucket) for bucket in range(2)]
    for n in range(24):
        log = logs[n % 2]
        log.act("schedule", f"t{n}", NOON + n * 1_000)
        for action in ("", "fire", "claim", "report", "fail", "cancel")[: n % 6 + 1]:
            if action:
                log.act(action, f"t{n}", n)
    for log in logs:
        log.commit(applied_before_ms=NOON + 29_000)
    with new_index(data_dir) as index:
        fold_in(index, *logs)
    with IndexReader(data_dir) as reader:
        yield create_app(reader, clock=RushingClock(), hosts=["testserver"])


@pytest.fixture(scope="module")
def described(app: Starlette) -> Any:
    """The API by its own description."""
    return schemathesis.openapi.from_asgi("/openapi.json", app)


# The stream does not end; tests/browser listens to it.
PATHS = {path: of["get"] for path, of in document()["paths"].items() if path != "/api/stream"}
CASES = [
    (path, mode)
    for path, operation in PATHS.items()
    for mode in GenerationMode
    # What takes no parameter cannot be asked wrongly.
    if operation["parameters"] or mode is GenerationMode.POSITIVE
]


@pytest.mark.parametrize(("path", "mode"), CASES, ids=lambda of: getattr(of, "value", of))
def test_answers_are_as_they_are_described(described: Any, path: str, mode: GenerationMode) -> None:
    operation = described[path]["GET"]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=8,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any) -> None:
        case.call_and_validate(excluded_checks=NOT_ASKED)

    answered()
