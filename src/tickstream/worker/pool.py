"""The slots of one process, and which handler runs in which kind.

No Kafka client may enter here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

from tickstream.errors import InvalidInput
from tickstream.worker.children import Children
from tickstream.worker.events import Events
from tickstream.worker.execution import Execution
from tickstream.worker.fair import Share
from tickstream.worker.run import Callee, Run
from tickstream.worker.slots import LoopSlots, ThreadSlots

Kind: TypeAlias = Literal["thread", "process", "async"]
KINDS: Final[tuple[Kind, ...]] = ("thread", "process", "async")
_Slots: TypeAlias = ThreadSlots | LoopSlots


class Slots(Protocol):
    """Where runs are executed, as a reader sees it."""

    def kind(self, handler: Callee) -> Kind: ...
    def submit(self, kind: Kind, runs: Sequence[Run]) -> None: ...
    def full(self, kind: Kind, queue: str) -> bool: ...


class HandlerPool:
    """Each kind of slot, made when its first run comes.

    `concurrency` holds for each kind: so many threads, and so many handlers on the loop; child
    processes are no more than there are processors.
    """

    def __init__(
        self,
        concurrency: int,
        shares: Mapping[str, Share],
        execution: Execution,
        events: Events,
        executor: Kind = "thread",
    ) -> None:
        """`executor`: of sync handlers that name none."""
        self._executor = executor
        self._kinds: dict[str, Kind] = {}
        """By handler: asked for every run."""
        self._children = Children(execution)
        processes = min(concurrency, os.cpu_count() or 1)
        self._make: dict[Kind, Callable[[], _Slots]] = {
            "thread": partial(ThreadSlots, concurrency, shares, execution.run),
            "process": partial(
                ThreadSlots, processes, shares, self._children.execute, "child", self._children
            ),
            "async": partial(LoopSlots, concurrency, shares, execution.run_async, events),
        }
        self._slots: dict[Kind, _Slots] = {}
        self._lock = threading.Lock()

    def kind(self, handler: Callee) -> Kind:
        """Where `handler` runs."""
        kind = self._kinds.get(handler.name)
        if kind is None:
            kind = self._kinds[handler.name] = kind_of(handler, self._executor)
        return kind

    def submit(self, kind: Kind, runs: Sequence[Run]) -> None:
        """Hand the runs to slots of that kind, in the order given. Any thread."""
        with self._lock:
            if kind not in self._slots:
                self._slots[kind] = self._make[kind]()
            slots = self._slots[kind]
        slots.submit(runs)

    def full(self, kind: Kind, queue: str) -> bool:
        """Whether a run of `queue` would have to wait for a slot of that kind."""
        slots = self._slots.get(kind)
        return slots is not None and slots.full(queue)

    @property
    def running(self) -> dict[Kind, int]:
        """Slots in use, by kind."""
        return {kind: slots.running for kind, slots in list(self._slots.items())}

    def close(self) -> None:
        """Start nothing more; async handlers are cancelled, child processes killed, threads left to themselves."""
        with self._lock:
            for slots in self._slots.values():
                slots.close()
        self._children.close()


def kind_of(handler: Callee, default: Kind) -> Kind:
    """The kind of slot for `handler`. Raises InvalidInput on an executor that there is not."""
    if handler.is_async:
        return "async"
    named = handler.executor or default
    if named == "thread":
        return "thread"
    if named == "process":
        return "process"
    raise InvalidInput(
        f"handler {handler.name!r} is a plain function, which a worker of async handlers only cannot run; "
        "declare it with async def, give it executor='thread', or start the worker with --executor thread"
    )
