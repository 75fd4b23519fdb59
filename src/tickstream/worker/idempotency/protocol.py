"""What every idempotency store does, and the block around a side effect that uses one.

No database client may enter here.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, runtime_checkable

from tickstream.errors import InvalidInput, RunBusy

_LOGGER: Final = logging.getLogger("tickstream.worker")
MAX_RESULT_BYTES: Final = 64 * 1024
"""Of what a store keeps for one effect."""


class Fence(NamedTuple):
    """Rises with every occurrence, attempt and holder of a task. Compared as a pair."""

    work_number: int
    """Running number of the Work record in its bucket."""
    claim_offset: int
    """Where the run's own claim lies in `reports`."""


class Fresh(NamedTuple):
    """Nobody has made the effect: this run does it now."""


class Done(NamedTuple):
    """The effect was made; `result` is what was recorded with it."""

    result: bytes


class Busy(NamedTuple):
    """Another run is at it."""

    run_id: bytes


Begun = Fresh | Done | Busy


@runtime_checkable
class IdempotencyStore(Protocol):
    """Remembers which effects were made. One method a step; `Once` calls them in this order."""

    def scope(self) -> AbstractContextManager[object]:
        """What begin, the effect and complete share: a transaction, or nothing."""
        ...

    def begin(self, key: str, run_id: bytes, fence: Fence) -> Begun:
        """Take the key for this run, unless its effect was made or another run holds it.

        The run that holds it already gets Fresh again; so does one with a higher fence than the
        holder's, because it is only there when the holder has lost its lease.
        """
        ...

    def complete(self, key: str, run_id: bytes, result: bytes) -> None:
        """The effect was made. Raises RunDisplaced when the key went to another run meanwhile."""
        ...

    def abandon(self, key: str, run_id: bytes) -> None:
        """The effect was not made: the key is free again, if this run still holds it."""
        ...


class Once:
    """The block around one side effect: `with ctx.once(conn) as run: if run.first: …`."""

    def __init__(self, store: IdempotencyStore, key: str, run_id: bytes, fence: Callable[[], Fence]) -> None:
        self._store = store
        self._key = key
        self._run_id = run_id or os.urandom(16)
        self._fence = fence
        self._scope = ExitStack()
        self.first = False
        """Whether the effect is to be made by this run, now."""
        self.result: Any = None
        """What was recorded with the effect, as JSON has it; set it to record something."""

    def __enter__(self) -> Self:
        # Before the transaction: a claim that cannot be had shall not hold a lock meanwhile.
        fence = self._fence()
        with ExitStack() as scope:
            scope.enter_context(self._store.scope())
            match self._store.begin(self._key, self._run_id, fence):
                case Busy(run_id):
                    raise RunBusy(self._key, run_id)
                case Done(result):
                    self.result = json.loads(result) if result else None
                case Fresh():
                    self.first = True
            self._scope = scope.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._give_back()
            self._scope.__exit__(kind, error, trace)
            return
        # What goes wrong now goes through the scope as well: a transaction rolls back, with the effect.
        with self._scope:
            if self.first:
                self._store.complete(self._key, self._run_id, _encoded(self._key, self.result))

    def _give_back(self) -> None:
        if not self.first:
            return
        try:
            self._store.abandon(self._key, self._run_id)
        except Exception:
            # The error that ended the block says more; the next attempt takes the key by its fence.
            _LOGGER.exception("idempotency key %s could not be given back", self._key)


def _encoded(key: str, result: Any) -> bytes:
    """Raises InvalidInput when the result is no JSON or too long: the effect is undone where that can be."""
    if result is None:
        return b""
    try:
        encoded = json.dumps(result, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the result of {key!r} cannot be written as JSON: {error}") from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise InvalidInput(f"the result of {key!r} has {len(encoded)} bytes, the limit is {MAX_RESULT_BYTES}")
    return encoded
