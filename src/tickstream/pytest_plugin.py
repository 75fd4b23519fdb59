"""The pytest plugin: the fixture `tick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tickstream.testing.harness import Harness


@pytest.fixture
def tick() -> Harness:
    """A fresh Harness: the real engine, a virtual clock, no broker."""
    # Imported here, so that a test run that does not use the fixture does not pay for it.
    from tickstream.testing.harness import Harness

    return Harness()
