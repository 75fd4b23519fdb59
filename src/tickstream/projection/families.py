"""The parts of the projection's database, and how RocksDB is opened for them.

No key of a part (keys.py) and no reading or writing may enter here.

A part is a prefix byte inside a column family. Finished rows have a column family to themselves:
they are dropped by age with DeleteRange, and compacting them leaves the rest alone. All else shares
one, since every further family makes each catch-up of a reader 0.6 ms dearer, whatever is in it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

from tickstream.projection.fold import FINISHED, IN_FLIGHT, WAITING

MAIN: Final = "default"
AGEING: Final = "finished"
COLUMN_FAMILIES: Final = (MAIN, AGEING)
_CACHE_BYTES: Final = 64 * 1024 * 1024
_NEVER_BY_ITSELF: Final = 1 << 30
"""Write buffer: far more than the writer lets pile up, so that RocksDB never flushes unasked (turn.py)."""


class Family(NamedTuple):
    """A part: keys that begin with `prefix` in a column family."""

    column: str
    prefix: bytes


UPCOMING: Final = Family(MAIN, b"u")
RUNNING: Final = Family(MAIN, b"r")
FINISHED_ROWS: Final = Family(AGEING, b"")
TASK: Final = Family(MAIN, b"t")
ENDED: Final = Family(MAIN, b"e")
ATTEMPTS: Final = Family(MAIN, b"a")
PULSES: Final = Family(MAIN, b"h")
COUNTS: Final = Family(MAIN, b"c")
LATENESS: Final = Family(MAIN, b"l")
FAILURES: Final = Family(MAIN, b"f")
CHANGES: Final = Family(MAIN, b"g")
SERIES: Final = Family(MAIN, b"s")
EVENTS: Final = Family(MAIN, b"v")
PLACES: Final = Family(MAIN, b"p")
CALENDARS: Final = Family(MAIN, b"k")
META: Final = Family(MAIN, b"m")
FAMILY_OF: Final = (
    dict.fromkeys(WAITING, UPCOMING)
    | dict.fromkeys(IN_FLIGHT, RUNNING)
    | dict.fromkeys(FINISHED, FINISHED_ROWS)
)
"""Where the rows of each state are."""


def open_options() -> tuple[Options, dict[str, Options]]:
    """RocksDB options of the database and of its column families, the same for writer and readers."""
    cache = Cache(_CACHE_BYTES)

    def tuned() -> Options:
        table = BlockBasedOptions()
        table.set_block_cache(cache)
        # Tasks and finished rows are asked for by key, and mostly are not there yet.
        table.set_bloom_filter(10, False)
        options = Options(raw_mode=True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_write_buffer_size(_NEVER_BY_ITSELF)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        # A secondary that may not keep every file open fails once a compaction has deleted one.
        options.set_max_open_files(-1)
        options.set_keep_log_file_num(2)
        return options

    return tuned(), {name: tuned() for name in COLUMN_FAMILIES}
