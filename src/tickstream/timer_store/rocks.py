"""RocksDB as the store opens it, and its errors by what must be done about them. No key here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, RdictIter

from tickstream.errors import StoreCorrupted, StoreFailed

_NOT_THE_DATA: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "lock ",
    "Permission denied",
    "Read-only file system",
    "Too many open files",
    "Input/output error",
)
"""What the system says when a store cannot be opened for another reason than what lies in it."""


def opening_error(path: Path, error: Exception) -> StoreCorrupted | StoreFailed:
    """Whether what lies in the store is broken, or something else is in the way."""
    if any(sign in str(error) for sign in _NOT_THE_DATA):
        return StoreFailed(f"{path}: {error}")
    return StoreCorrupted(f"{path}: {error}")


def failed_by(error: Exception) -> StoreCorrupted | StoreFailed:
    """What is broken, or what failed: rocksdict raises a bare Exception for every RocksDB status."""
    return (StoreCorrupted if str(error).startswith("Corruption") else StoreFailed)(str(error))


@contextlib.contextmanager
def statuses() -> Iterator[None]:
    """Tell what is broken from what failed."""
    try:
        yield
    except Exception as error:
        raise failed_by(error) from error


def check(rows: RdictIter) -> None:
    """An iterator that met a corrupt block just stops: only its status tells."""
    with statuses():
        rows.status()


def store_options(cache_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(16 * 1024 * 1024)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(cache_bytes))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
