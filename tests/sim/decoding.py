"""Each distinct value decoded once a run, by the real decoders: a simulation reads every record many times over.

What they return is immutable, so that everybody may have the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from types import ModuleType
from typing import Final
from unittest.mock import patch

from tickstream import codec

_NAMES: Final = (
    "decode_batch",
    "decode_body",
    "decode_claim",
    "decode_command",
    "decode_history",
    "decode_progress",
    "decode_queue",
    "decode_reports",
    "decode_spec",
    "decode_state",
    "decode_verdicts",
    "decode_work",
    "split_timers_key",
)
_ROOMS: Final = ("tickstream.", "tests.sim.")
_KEPT: Final = 4_096


@cache
def _readers(name: str) -> tuple[ModuleType, ...]:
    """Every module that knows the decoder by its name."""
    real = getattr(codec, name)
    loaded = [module for path, module in sys.modules.items() if path.startswith(_ROOMS)]
    return (codec, *(module for module in loaded if getattr(module, name, None) is real))


@contextmanager
def shared() -> Iterator[None]:
    """While this lasts."""
    with ExitStack() as patches:
        for name in _NAMES:
            readers = _readers(name)
            once = lru_cache(_KEPT)(getattr(codec, name))
            for module in readers:
                patches.enter_context(patch.object(module, name, once))
        yield
