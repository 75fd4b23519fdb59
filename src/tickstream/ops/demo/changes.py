"""Carries out the planned cancels and replaces, each at its time, and keeps their verdicts.

What is changed and when is plan.py's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Final, Self, cast

from tickstream.clock import Clock
from tickstream.errors import SendFailed, VerdictTimeout
from tickstream.ingest.client import Client
from tickstream.model import Receipt, VerdictKind
from tickstream.ops.demo.plan import Change, ChangeKind
from tickstream.ops.journal import JournalWriter

_AT_ONCE: Final = 8
"""While a lane moves, verdicts on its tasks take seconds; the others should not wait for them."""
_VERDICT: Final = timedelta(seconds=10)


class Changes:
    """The changes of one demo; use it in a `with`, which starts them and at its end drops those left."""

    def __init__(self, plan: Sequence[Change], client: Client, journal: JournalWriter, clock: Clock) -> None:
        self._plan = plan
        self._client = client
        self._journal = journal
        self._clock = clock
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self._verdicts: Counter[tuple[ChangeKind, str]] = Counter()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="change")
        self._made: list[Future[None]] = []
        self._feeder = threading.Thread(target=self._feed, name="changes", daemon=True)

    @property
    def verdicts(self) -> dict[str, dict[str, int]]:
        """Kind of change → verdict → how many; "NONE" stands for no answer."""
        with self._counting:
            found: dict[str, dict[str, int]] = {kind.value: {} for kind in ChangeKind}
            for (kind, verdict), count in self._verdicts.items():
                found[kind.value][verdict] = count
            return found

    def done(self) -> bool:
        """Whether all of them were made."""
        return not self._feeder.is_alive() and all(change.done() for change in self._made)

    def __enter__(self) -> Self:
        self._feeder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._feeder.join()
        self._pool.shutdown(cancel_futures=True)
        if error is None:
            for change in self._made:
                if not change.cancelled():
                    change.result()

    def _feed(self) -> None:
        for change in self._plan:
            if self._stop.wait(max(0, change.at_ms - self._clock.wall_ms()) / 1_000):
                return
            self._made.append(self._pool.submit(self._make, change))

    def _make(self, change: Change) -> None:
        try:
            receipt, verdict = self._ask(change)
        except SendFailed:
            # Not acknowledged: nothing was promised, so there is nothing to keep.
            self._count(change, None)
            return
        self._count(change, verdict)
        if change.kind is ChangeKind.CANCEL:
            self._journal.cancel(change.task.task_id, receipt, verdict)
        else:
            self._journal.schedule(change.task.task_id, change.run_at_ms, receipt, verdict)

    def _ask(self, change: Change) -> tuple[Receipt, VerdictKind | None]:
        task = change.task
        try:
            if change.kind is ChangeKind.CANCEL:
                verdict = self._client.cancel(task.task_id, timeout=_VERDICT)
            else:
                verdict = self._client.schedule(
                    task.task_id,
                    run_at_ts=change.run_at_ms,
                    payload=task.payload,
                    handler=task.handler,
                    queue=task.queue,
                    labels=task.labels,
                    wait=_VERDICT,
                )
        except VerdictTimeout as late:
            return cast(Receipt, late.receipt), None
        return verdict.receipt, verdict.kind

    def _count(self, change: Change, verdict: VerdictKind | None) -> None:
        with self._counting:
            self._verdicts[change.kind, "NONE" if verdict is None else verdict.value] += 1
