"""The projection's RocksDB, read: opened as a secondary beside the process that writes it.

Nothing may be written here, and no Kafka may enter. One view is one state of the database: it
catches up with the writer when it begins and stands still until it ends, so rows, counters and
positions in one answer belong together.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from rocksdict import AccessType, Rdict, ReadOptions

from tickstream.errors import IndexNotReady
from tickstream.model import Phase
from tickstream.projection import keys, turn
from tickstream.projection.families import (
    ATTEMPTS,
    COLUMN_FAMILIES,
    ENDED,
    FINISHED_ROWS,
    META,
    PULSES,
    TASK,
    Family,
    open_options,
)
from tickstream.projection.rows import Attempt, Owner, Position, Pulse, QueueSetting, Row, TaskRecord
from tickstream.projection.stored import (
    decode_attempt,
    decode_owner,
    decode_position,
    decode_pulse,
    decode_row,
    decode_setting,
    decode_task,
)
from tickstream.projection.turn import Turn

_TRIES: Final = 200
_PAUSE_S: Final = 0.01
"""Between two looks while the writer moves: it takes up to a second to write out its memory."""


class View:
    """One state of the index. Valid only inside `IndexReader.view()`."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    def scan(self, family: Family, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values with start <= key < end, ascending. Raises IndexNotReady on a read error."""
        prefix = len(family.prefix)
        bounded = ReadOptions()
        bounded.set_iterate_upper_bound(family.prefix + end)
        rows = self._columns[family.column].iter(bounded)
        rows.seek(family.prefix + start)
        # Looked up once: this is the innermost loop of every listing.
        valid, key, value, forward = rows.valid, rows.key, rows.value, rows.next
        while valid():
            yield key()[prefix:], value()
            forward()
        _check(rows)

    def scan_back(self, family: Family, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values with start <= key < end, descending. Raises IndexNotReady on a read error."""
        prefix = len(family.prefix)
        low, high = family.prefix + start, family.prefix + end
        rows = self._columns[family.column].iter()
        rows.seek_for_prev(high)
        # A lower bound set on the iterator is not kept to by seek_for_prev.
        while rows.valid() and (key := rows.key()) >= low:
            if key < high:
                yield key[prefix:], rows.value()
            rows.prev()
        _check(rows)

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of a key."""
        value: bytes | None = self._columns[family.column].get(family.prefix + key)
        return value

    def of_buckets(self) -> int:
        """How many buckets the installation has."""
        return int(self.get(META, keys.BUCKETS) or 0)

    def _followed(self) -> list[int]:
        """The buckets that this index follows."""
        return [int(bucket) for bucket in (self.get(META, keys.OWN) or b"").split(b",") if bucket]

    def positions(self) -> dict[int, Position]:
        """Where each bucket stands that this index follows."""
        values = ((b, self.get(META, keys.bucket_key(b))) for b in self._followed())
        return {b: Position() if v is None else decode_position(v) for b, v in values}

    def owners(self) -> dict[int, Owner]:
        """Who took each bucket last, by bucket; none where no Claim was read."""
        values = ((b, self.get(META, keys.owner_key(b))) for b in self._followed())
        return {b: decode_owner(value) for b, value in values if value is not None}

    def settings(self) -> dict[str, list[QueueSetting]]:
        """By queue ("" is everything), what is set for it in each bucket that was told."""
        found: dict[str, list[QueueSetting]] = {}
        for key, value in self.scan(META, *keys.SETTINGS):
            _, queue = keys.read_setting_key(key)
            found.setdefault(queue, []).append(decode_setting(value))
        return found

    def cluster(self) -> bytes | None:
        """What the broker said last of groups and ends (watch.py)."""
        return self.get(META, keys.CLUSTER)

    def total(self, state: Phase) -> int:
        """How many rows are in `state`."""
        return sum(int(value) for _, value in self.scan(META, *keys.total_bounds(state)))

    def totals(self) -> dict[tuple[Phase, str], int]:
        """How many rows are in each state and queue."""
        return {keys.read_total_key(key): int(value) for key, value in self.scan(META, *keys.TOTALS)}

    def task(self, task_id: str) -> TaskRecord | None:
        """The task's record."""
        value = self.get(TASK, keys.task_key(task_id))
        return None if value is None else decode_task(task_id, value)

    def finished_of(self, task_id: str, limit: int) -> list[Row]:
        """The last `limit` finished rows of a task, shown ones only, by occurrence."""
        prefix = keys.ended_prefix(task_id)
        rows: list[Row] = []
        for key, _ in self.scan_back(ENDED, prefix, prefix + keys.END):
            _, occurrence = keys.read_ended_key(key)
            value = self.get(FINISHED_ROWS, keys.row_key(task_id, occurrence))
            if value is not None and not (row := decode_row(value)).superseded:
                rows.append(row)
            if len(rows) == limit:
                break
        return rows[::-1]

    def attempts(self, task_id: str, occurrence_ts: int, limit: int) -> list[Attempt]:
        """The first `limit` attempts of an occurrence that were noted, in the order of the log."""
        found = islice(self.scan(ATTEMPTS, *keys.attempts_of(task_id, occurrence_ts)), limit)
        return [decode_attempt(*keys.read_attempt_key(key), value) for key, value in found]

    def pulse(self, task_id: str, occurrence_ts: int) -> Pulse | None:
        """The last heartbeat of an occurrence's run that was heard of."""
        value = self.get(PULSES, keys.row_key(task_id, occurrence_ts))
        return None if value is None else decode_pulse(task_id, occurrence_ts, value)


class _Secondary:
    """An open database of one turn. Whole for as long as it was never caught up with across a flush."""

    def __init__(self, data_dir: Path, opened: Turn, scratch: str) -> None:
        self.turn = opened
        self._scratch = tempfile.mkdtemp(dir=scratch)
        options, families = open_options()
        self.db = Rdict(
            str(data_dir / opened.name),
            options,
            column_families=families,
            access_type=AccessType.secondary(self._scratch),
        )
        self.columns = {name: self.db.get_column_family(name) for name in COLUMN_FAMILIES}

    def close(self) -> None:
        self.columns.clear()
        self.db.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


class IndexReader:
    """Read access to a projection's data directory. A context manager, usable from several threads."""

    def __init__(self, data_dir: Path) -> None:
        self._dir = data_dir
        self._lock = threading.Lock()
        self._now: _Secondary | None = None
        self._reason = "nothing was ever written"
        self._scratch = tempfile.TemporaryDirectory(prefix="tickstream-reader-")

    def __enter__(self) -> IndexReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._close()
            self._scratch.cleanup()

    def _close(self) -> None:
        if self._now is not None:
            self._now.close()
            self._now = None

    @contextmanager
    def view(self) -> Iterator[View]:
        """The index as it is now. Raises IndexNotReady when there is none.

        One view at a time: catching up would move the ground under another one, and RocksDB's
        Python binding runs one call at a time anyway.
        """
        with self._lock:
            yield View(self._newest().columns)

    def _newest(self) -> _Secondary:
        """The newest state that is whole (turn.py); while the writer moves, the one from before."""
        for _ in range(_TRIES):
            settled = turn.read(self._dir)
            if settled is None:
                break
            if not settled.moving:
                try:
                    self._follow(settled)
                except IndexNotReady as error:
                    # A file that a compaction has just removed is not missed the next time.
                    self._reason = str(error)
            if self._now is not None:
                return self._now
            if settled.moving:
                self._reason = "it is being opened or written out"
            time.sleep(_PAUSE_S)
        raise IndexNotReady(
            f"there is no index to read in {self._dir} ({self._reason}); "
            "is the projection running on it? (tickstream projection run --data)"
        )

    def _follow(self, settled: Turn) -> None:
        """Go on to `settled`. Afterwards what stands is whole: newer if all went well, else older or nothing."""
        if self._now is not None and self._now.turn == settled:
            try:
                with _rocksdb_errors():
                    self._now.db.try_catch_up_with_primary()
            except IndexNotReady:
                self._close()
                raise
            if turn.read(self._dir) != settled:
                self._close()
            return
        with _rocksdb_errors():
            fresh = _Secondary(self._dir, settled, self._scratch.name)
        if turn.read(self._dir) == settled:
            self._close()
            self._now = fresh
        else:
            fresh.close()


@contextmanager
def _rocksdb_errors() -> Iterator[None]:
    """rocksdict has no narrower class than Exception for what RocksDB reports."""
    try:
        yield
    except Exception as error:
        raise IndexNotReady(f"it cannot be read just now: {error}") from error


def _check(rows: Any) -> None:
    """An iterator stops at a corrupt block as if it were the end; only its status tells."""
    with _rocksdb_errors():
        rows.status()
