"""Rows of bytes on disk, given back sorted by key, in memory that does not grow with their number.

An external merge sort: what fits is sorted and written as one run, in the end the runs are merged.
Files only: nothing of tickstream but errors may enter here.
"""

from __future__ import annotations

import heapq
import marshal
import tempfile
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import IO, Final

from tickstream.errors import InvalidInput

RUN_BYTES: Final = 8 * 1024 * 1024
"""Of rows in memory before they are written; Python's own overhead is as much again for short ones."""
_BLOCK_ROWS: Final = 256
"""Read at a time from each run."""
_MERGED: Final = 64
"""Runs merged at once; more are merged in rounds, so that neither files nor blocks add up."""
_END_OF_KEY: Final = b"\x00\x00"
_NUMBER_BYTES: Final = 6


class Scratch:
    """Rows of one sort, in files of their own under `directory`, gone when it is closed.

    A row is: the key, in which a zero byte is written as 00 ff; 00 00; the number of the row, six
    bytes, big-endian; its value. So rows sort as bytes by key, and rows of one key in the order in which
    they were added.
    """

    def __init__(self, directory: Path, run_bytes: int = RUN_BYTES) -> None:
        """Raises InvalidInput when nothing can be written to `directory`."""
        self._directory = directory
        self._run_bytes = run_bytes
        self._rows: list[bytes] = []
        self._bytes = 0
        self._added = 0
        self._runs: list[IO[bytes]] = []
        # Where nothing can be written, this is the time to say so.
        self._file().close()

    def close(self) -> None:
        """Give the disk back."""
        for run in self._runs:
            run.close()

    def add(self, key: bytes, value: bytes) -> None:
        """Add a row. Raises InvalidInput when the disk is full."""
        if b"\x00" in key:
            key = key.replace(b"\x00", b"\x00\xff")
        row = b"".join((key, _END_OF_KEY, self._added.to_bytes(_NUMBER_BYTES, "big"), value))
        self._added += 1
        self._rows.append(row)
        self._bytes += len(row)
        if self._bytes >= self._run_bytes:
            self._spill()

    def groups(self) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Every key, ascending, with its values in the order in which they were added; may be asked again.

        The values of a key are there until the next key is asked for. Raises InvalidInput when the disk is
        full, and OSError when rows that were written are not there.
        """
        self._spill()
        while len(self._runs) > _MERGED:
            merged = heapq.merge(*map(_rows_of, self._runs[:_MERGED]))
            run = self._write(merged)
            for old in self._runs[:_MERGED]:
                old.close()
            self._runs = [*self._runs[_MERGED:], run]
        passed = [0]
        for key, rows in groupby(_counted(heapq.merge(*map(_rows_of, self._runs)), passed), key=_key_of):
            value_at = len(key) + len(_END_OF_KEY) + _NUMBER_BYTES
            yield key.replace(b"\x00\xff", b"\x00"), _values_of(rows, value_at)
        if passed[0] != self._added:
            raise OSError(
                f"of {self._added} rows written to {self._directory} only {passed[0]} were read back"
            )

    def _spill(self) -> None:
        if self._rows:
            self._rows.sort()
            self._runs.append(self._write(self._rows))
            self._rows, self._bytes = [], 0

    def _write(self, rows: Iterable[bytes]) -> IO[bytes]:
        run = self._file()
        try:
            block: list[bytes] = []
            for row in rows:
                block.append(row)
                if len(block) == _BLOCK_ROWS:
                    marshal.dump(block, run)
                    block = []
            marshal.dump(block, run)
            run.flush()
        except OSError as error:
            raise InvalidInput(_unwritable(self._directory, error)) from error
        return run

    def _file(self) -> IO[bytes]:
        try:
            # Without a name: it is gone with the process, however that ends.
            return tempfile.TemporaryFile(dir=self._directory, prefix="tickstream-audit-")
        except OSError as error:
            raise InvalidInput(_unwritable(self._directory, error)) from error


def _rows_of(run: IO[bytes]) -> Iterator[bytes]:
    at = 0
    while True:
        # Each reader has its own place: a run is read again for every `groups`.
        run.seek(at)
        block: list[bytes] = marshal.load(run)
        at = run.tell()
        yield from block
        if len(block) < _BLOCK_ROWS:
            return


def _counted(rows: Iterable[bytes], passed: list[int]) -> Iterator[bytes]:
    for row in rows:
        passed[0] += 1
        yield row


def _values_of(rows: Iterable[bytes], value_at: int) -> Iterator[bytes]:
    for row in rows:
        yield row[value_at:]


def _key_of(row: bytes) -> bytes:
    return row[: row.index(_END_OF_KEY)]


def _unwritable(directory: Path, error: OSError) -> str:
    return (
        f"{directory}: {error.strerror or error}; the audit sorts what it reads there, some 100 bytes a record: "
        "name a directory with room, with --scratch"
    )
