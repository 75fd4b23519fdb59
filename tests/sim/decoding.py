"""Each distinct value decoded once a run, by the real decoders: a simulation reads every record many times over.

What they return is immutable, so that everybody may have the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Final
from unittest.mock import patch

from tests.sim import evidence
from tickstream import codec
from tickstream.dispatcher import bucket, decision, engine, runs, takeover
from tickstream.ops.audit import fold
from tickstream.testing.sim import store

_NAMES: Final = (
    "decode_batch",
    "decode_command",
    "decode_history",
    "decode_progress",
    "decode_reports",
    "decode_spec",
    "decode_state",
    "decode_work",
)
_READERS: Final = (codec, bucket, decision, engine, evidence, fold, runs, store, takeover)
_KEPT: Final = 4_096


@contextmanager
def shared() -> Iterator[None]:
    """While this lasts."""
    with ExitStack() as patches:
        for name in _NAMES:
            found = [module for module in _READERS if hasattr(module, name)]
            once = lru_cache(_KEPT)(getattr(found[0], name))
            for module in found:
                patches.enter_context(patch.object(module, name, once))
        yield
