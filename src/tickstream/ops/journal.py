"""What a client keeps of its own run, for the audit: receipts of acked commands, and whom it killed.

One JSON object a line, appended and flushed at once; what it means is the audit's.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tickstream.model import Receipt, VerdictKind


class JournalWriter:
    """A journal being written. Threads may share it; use it in a `with`."""

    def __init__(self, path: Path) -> None:
        """Append to `path`, which is made if need be."""
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def schedule(
        self, task_id: str, run_at_ms: int, receipt: Receipt, verdict: VerdictKind | None = None
    ) -> None:
        """A Schedule that the broker acknowledged, with its verdict where one was waited for."""
        self._command("schedule", task_id, receipt, verdict, {"run_at_ms": run_at_ms})

    def cancel(self, task_id: str, receipt: Receipt, verdict: VerdictKind | None) -> None:
        """A Cancel that the broker acknowledged, and its verdict if one came."""
        self._command("cancel", task_id, receipt, verdict, {})

    def kill(self, role: str, pid: int, at_ms: int) -> None:
        """A process killed on purpose; `role` is `dispatcher` or `worker`."""
        self._write({"type": "kill", "role": role, "pid": pid, "at_ms": at_ms})

    def close(self) -> None:
        """Close the file. May be called again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _command(
        self, kind: str, task_id: str, receipt: Receipt, verdict: VerdictKind | None, more: dict[str, object]
    ) -> None:
        entry = {"type": kind, "task_id": task_id, **more, "receipt": str(receipt)}
        self._write(entry if verdict is None else {**entry, "verdict": verdict.value})

    def _write(self, entry: dict[str, object]) -> None:
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        with self._lock:
            self._file.write(line)
