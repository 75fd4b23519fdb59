"""Which database readers should open, and since which turn: a sequence lock between two processes.

No RocksDB may enter here.

Why there is one: a RocksDB secondary keeps its own copy of the writer's memtable and does not let
go of it when the writer has flushed. From then on it mixes that old copy with newer files: reads
by key give the old value, and rows deleted meanwhile reappear after a compaction (measured with
RocksDB 10 under random writes; between two flushes, compactions and DeleteRange included, it is
right). So the writer flushes only when it says so, and a reader opens anew after every flush:

    writer   turn + 1 (odd: moving) → flush, or open, or close → turn + 1 (even: settled)
    reader   read the turn; if it is a new even one, open anew; catch up; read the turn again, and
             use the view only when it is the same
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

_FILE: Final = "current"


class Turn(NamedTuple):
    """The content of `current`."""

    name: str
    """Directory of the database, inside the data directory."""
    number: int

    @property
    def moving(self) -> bool:
        """Whether the writer is about to change what readers must not see half of."""
        return self.number % 2 == 1

    @property
    def next(self) -> Turn:
        """The turn after this one."""
        return self._replace(number=self.number + 1)


def read(data_dir: Path) -> Turn | None:
    """The turn that is written there, None when there is none yet."""
    try:
        name, number = (data_dir / _FILE).read_text().split()
    except FileNotFoundError:
        return None
    return Turn(name, int(number))


def write(data_dir: Path, turn: Turn) -> None:
    """Write it so that a reader sees the old turn or this one, never part of it."""
    temporary = data_dir / f"{_FILE}.new"
    temporary.write_text(f"{turn.name} {turn.number}\n")
    os.replace(temporary, data_dir / _FILE)
