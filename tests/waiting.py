"""Waiting for something that no event announces."""

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether `condition` comes true within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
