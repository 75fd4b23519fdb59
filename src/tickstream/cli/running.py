"""What commands that run until they are told to stop have in common: signals and the log."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(*, unwind: bool = False, supervised: bool = False) -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second ends the process at once.

    With `unwind` the second raises KeyboardInterrupt instead, for commands that have something to take away.
    With `supervised` SIGINT is ignored: at a terminal Ctrl-C reaches the children too, and their parent is
    about to send them SIGTERM. Only for the main thread. The former handlers are back afterwards.
    """
    stop = threading.Event()

    asked = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            # Not on this thread: the signal may have found it inside wait(), holding the event's own lock.
            threading.Thread(target=stop.set, name="stop").start()
        elif unwind:
            raise KeyboardInterrupt
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    handlers = {signal.SIGTERM: handle, signal.SIGINT: signal.SIG_IGN if supervised else handle}
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


_COLLECT_S = 30.0


@contextmanager
def collected_by_the_clock() -> Iterator[None]:
    """Look for cyclic garbage every half minute instead of every few hundred new values.

    For processes that fold records: all that they make is a value without cycles, which counting references
    frees. Python's collector looks at each of them several times all the same, in the midst of a
    transaction: a quarter to a half of the processor time of a record (docs/performance.md).
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    ended = threading.Event()

    def collect() -> None:
        while not ended.wait(_COLLECT_S):
            gc.collect()

    thread = threading.Thread(target=collect, name="collect", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        gc.enable()
        gc.unfreeze()


def log_to_stderr(level: str) -> None:
    """Send the log to stderr, from `level` (DEBUG … ERROR) up."""
    logging.basicConfig(
        stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
