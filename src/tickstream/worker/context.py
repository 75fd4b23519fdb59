"""What a handler is told about its run: the first argument of every handler.

No Kafka client and no runtime state may enter here, so that a test can make one in a line.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from tickstream.model import Rev, idempotency_key

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_LOGGER: Final = logging.getLogger("tickstream.handler")


class Context:
    """One run, as its handler sees it.

    In a unit test of a handler: `mail(Context("mail:42", 1_767_225_600_000), "a@b")`.
    """

    __slots__ = ("attempt", "headers", "labels", "occurrence_ts", "rev", "task_id")

    def __init__(
        self,
        task_id: str,
        occurrence_ts: int,
        attempt: int = 1,
        *,
        rev: Rev = Rev(0, 0),  # noqa: B008 (immutable)
        labels: Mapping[str, str] = _EMPTY,
        headers: Mapping[str, str] = _EMPTY,
    ) -> None:
        self.task_id = task_id
        self.occurrence_ts = occurrence_ts
        """The instant this run stands for, ms since the epoch, UTC."""
        self.attempt = attempt
        """1 for the first."""
        self.rev = rev
        """The definition under which it was dispatched."""
        self.labels = labels
        self.headers = headers
        """Trace context and the like, as the client gave them."""

    @property
    def occurrence(self) -> datetime:
        """The instant this run stands for, aware, UTC."""
        return _EPOCH + timedelta(milliseconds=self.occurrence_ts)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one occurrence: `task_id@occurrence_ts`."""
        return idempotency_key(self.task_id, self.occurrence_ts)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry task_id, occurrence_ts and attempt as attributes."""
        return _RunLog(
            _LOGGER,
            {"task_id": self.task_id, "occurrence_ts": self.occurrence_ts, "attempt": self.attempt},
        )

    def __repr__(self) -> str:
        return f"Context({self.task_id!r}, {self.occurrence_ts}, attempt={self.attempt})"


class _RunLog(logging.LoggerAdapter[logging.Logger]):
    """Keeps the caller's own `extra`, which the adapter of the standard library drops."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}
