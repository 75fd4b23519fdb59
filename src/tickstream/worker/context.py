"""What a handler is told about its run, and what it may ask of it: the first argument of every handler.

No Kafka client and no runtime state may enter here, so that a test can make one in a line: what
needs a worker goes through `RunLink`, and does something plain where there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol

from tickstream.clock import moment_of
from tickstream.errors import InvalidInput, RetryIn
from tickstream.model import BACKFILL_LABEL, BoundCall, Rev, idempotency_key
from tickstream.worker.follow_up import FollowUp, follow_up
from tickstream.worker.idempotency import Fence, Once, store_for

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_LOGGER: Final = logging.getLogger("tickstream.handler")
_NO_FENCE: Final = Fence(0, 0)


class RunLink(Protocol):
    """What a run may ask of the worker that runs it; called from where the handler runs."""

    def fence(self) -> Fence:
        """Claim the run if that has not happened yet, wait for the acknowledgement, say where it lies."""
        ...

    def progress(self, thousandths: int, note: str) -> None:
        """Send this along with the next heartbeat."""
        ...

    def schedule(self, made: FollowUp) -> FollowUp:
        """Hand a follow-up to the worker's own client. Raises what `Client.schedule` raises."""
        ...


class Context:
    """One run, as its handler sees it.

    In a unit test of a handler: `mail(Context("mail:42", 1_767_225_600_000), "a@b")`.
    """

    __slots__ = (
        "_fence",
        "_link",
        "attempt",
        "cancelled",
        "follow_ups",
        "headers",
        "labels",
        "last_attempt",
        "lost",
        "occurrence_ts",
        "rev",
        "run_id",
        "skipped",
        "task_id",
    )

    def __init__(
        self,
        task_id: str,
        occurrence_ts: int,
        attempt: int = 1,
        *,
        rev: Rev = Rev(0, 0),  # noqa: B008 (immutable)
        labels: Mapping[str, str] = _EMPTY,
        headers: Mapping[str, str] = _EMPTY,
        run_id: bytes = b"",
        skipped: int = 0,
        last_attempt: bool = False,
        fence: Fence | None = None,
        link: RunLink | None = None,
    ) -> None:
        """`link`: the worker; without one `fence` is the given one, or (0, 0)."""
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
        self.run_id = run_id
        """Of this execution: 16 bytes, empty outside a worker."""
        self.skipped = skipped
        """Occurrences of this task that were passed over since the last one that ran, whatever the reason."""
        self.last_attempt = last_attempt
        """Whether the work is given up if this attempt fails."""
        self.cancelled = False
        """Whether the run shall stop: its timeout passed, someone cancelled the task, or the worker
        stops. A handler in a thread looks at it now and then; an async one is cancelled. Set by the worker."""
        self.lost = False
        """Whether the lease has run out as far as this worker knows: another attempt may be under
        way, so side effects have to end. Set by the worker."""
        self.follow_ups: list[FollowUp] = []
        """What `schedule` took, in order; a unit test of the handler looks here."""
        self._fence = fence
        self._link = link

    @property
    def occurrence(self) -> datetime:
        """The instant this run stands for, aware, UTC."""
        return moment_of(self.occurrence_ts)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one occurrence: `task_id@occurrence_ts`.

        Where the run makes up for an occurrence of another task (a backfill), it is that occurrence's.
        """
        return idempotency_key(self._stands_for, self.occurrence_ts)

    @property
    def _stands_for(self) -> str:
        """The task whose occurrence this is."""
        return self.labels.get(BACKFILL_LABEL, self.task_id)

    @property
    def fence(self) -> Fence:
        """A pair of numbers that rises with every occurrence, attempt and holder of this task.

        A store that remembers the highest it saw can refuse a run that was displaced. The first look
        claims the run and waits for the broker's acknowledgement, some milliseconds.
        """
        if self._fence is None:
            self._fence = _NO_FENCE if self._link is None else self._link.fence()
        return self._fence

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry task_id, occurrence_ts and attempt as attributes."""
        return _RunLog(
            _LOGGER,
            {"task_id": self.task_id, "occurrence_ts": self.occurrence_ts, "attempt": self.attempt},
        )

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the run is, 0 to 1, and what it does; shown on the dashboard with the next heartbeat.

        Raises InvalidInput outside 0 to 1.
        """
        if not 0 <= fraction <= 1:
            raise InvalidInput(f"progress({fraction!r}): a fraction from 0 to 1")
        if self._link is not None:
            self._link.progress(round(fraction * 1_000), note)

    def retry_in(self, delay: timedelta, reason: str = "") -> NoReturn:
        """End this attempt as failed, to be tried again after `delay`; it counts as a failure.

        Raises RetryIn, which the worker turns into that; InvalidInput when `delay` is negative.
        """
        raise RetryIn(delay, reason)

    def once(self, where: object, name: str = "") -> Once:
        """The occurrence's side effect, made once over all attempts: `with ctx.once(conn) as run:`.

        `where`: a psycopg Connection, a redis-py Redis, or any IdempotencyStore; `name` tells apart
        several effects of one run. Within the block, `run.first` says whether to do it; what is put into
        `run.result` (JSON) is there for later attempts. Raises InvalidInput on anything else, and on
        entering RunBusy when another run is at it. docs/idempotency.md says what each store guarantees.
        """
        key = f"{self.idempotency_key}/{name}" if name else self.idempotency_key
        return Once(store_for(where), key, self.run_id, lambda: self.fence)

    def schedule(
        self,
        name: str,
        call: BoundCall,
        *,
        delay: timedelta = timedelta(0),
        run_at: datetime | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> FollowUp:
        """Schedule work that follows from this run, `delay` after the occurrence, or at `run_at`.

        The task's id is made of this task, this occurrence and `name`: however many attempts get this
        far, it is one task. The run is only reported as succeeded once the broker has it. Give `run_at`
        only if every attempt computes the same. Raises InvalidInput, and what `Client.schedule` raises.
        """
        made = follow_up(self._stands_for, self.occurrence_ts, name, call, delay, run_at, queue, labels)
        return self.hand_over(made)

    def hand_over(self, made: FollowUp) -> FollowUp:
        """Of the worker: the second half of `schedule`, where the handler runs in another process."""
        if self._link is not None:
            made = self._link.schedule(made)
        self.follow_ups.append(made)
        return made

    def __repr__(self) -> str:
        return f"Context({self.task_id!r}, {self.occurrence_ts}, attempt={self.attempt})"


class _RunLog(logging.LoggerAdapter[logging.Logger]):
    """Keeps the caller's own `extra`, which the adapter of the standard library drops."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}
