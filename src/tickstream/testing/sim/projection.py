"""A projection of the simulation: the real steps and fold over an index in memory that outlives its process.

The twin of projection/service.py, which is a consumer and RocksDB around the same parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickstream.projection.fold import Changes, fold
from tickstream.projection.rows import Position, Row, TaskRecord
from tickstream.projection.steps import BucketBuffer
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import MS, Process, World
from tickstream.topics import TopicNames

_ROUND_US: Final = 400 * MS


class Index:
    """Rows, task records and positions: written together, as one WriteBatch. Implements fold.View."""

    def __init__(self, buckets: int) -> None:
        self.live: dict[tuple[str, int], Row] = {}
        """Rows from `timers` that are shown, by (task_id, occurrence_ts)."""
        self.ended: dict[tuple[str, int], Row] = {}
        self.tasks: dict[str, TaskRecord] = {}
        self.positions = {b: Position() for b in range(buckets)}

    def task(self, task_id: str) -> TaskRecord | None:
        """See View."""
        return self.tasks.get(task_id)

    def finished(self, task_id: str, occurrence_ts: int) -> Row | None:
        """See View."""
        return self.ended.get((task_id, occurrence_ts))

    def position(self, bucket: int) -> Position:
        """See View."""
        return self.positions[bucket]

    def apply(self, changes: Changes) -> None:
        """All of them at once."""
        gone = [(t, o) for (_, t, o), row in changes.live.items() if row is None]
        for place in gone:
            self.live.pop(place, None)
        for (_, task_id, occurrence), row in changes.live.items():
            if row is not None:
                self.live[task_id, occurrence] = row
        self.ended.update(changes.finished)
        for task_id, record in changes.tasks.items():
            if record is None:
                self.tasks.pop(task_id, None)
            else:
                self.tasks[task_id] = record
        self.positions.update(changes.positions)

    def shown(self) -> dict[tuple[str, int], str]:
        """(task_id, occurrence_ts) → the state that an answer shows."""
        rows = {place: row.state.value for place, row in self.live.items()}
        rows.update({p: row.state.value for p, row in self.ended.items() if not row.superseded})
        return rows


class SimProjection:
    """One projection over all its incarnations."""

    def __init__(
        self,
        world: World,
        broker: Broker,
        names: TopicNames,
        buckets: int,
        process: Process,
        dice: Dice,
        folded: Callable[[Index], None],
    ) -> None:
        self.process = process
        self.index = Index(buckets)
        self._world = world
        self._broker = broker
        self._topics = (names.timers, names.history)
        self._buckets = buckets
        self._dice = dice
        self._folded = folded
        """Hears of every step that is in the index."""

    def start(self) -> None:
        """A new incarnation, from the index's positions on."""
        self._world.start(self.process)
        self._buffers = {b: BucketBuffer(b, p) for b, p in self.index.positions.items()}
        timers, history = self._topics
        self._at = {}
        for b, p in self.index.positions.items():
            self._at[timers, b] = max(p.timers, self._broker.partitions[timers, b].start)
            self._at[history, b] = max(p.history, self._broker.partitions[history, b].start)
        self._round()

    def _round(self) -> None:
        timers, _ = self._topics
        dice = self._dice
        for (topic, bucket), at in self._at.items():
            if at == self._broker.partitions[topic, bucket].stable:
                continue
            limit = dice.rng.choice((1, 4, 1_000)) if dice.hit(dice.now.partial) else 1_000
            records, self._at[topic, bucket] = self._broker.partitions[topic, bucket].read(at, limit)
            buffer = self._buffers[bucket]
            for r in records:
                if topic == timers:
                    buffer.add_timers(r.offset, r.key, r.value)
                else:
                    buffer.add_history(r.offset, r.value)
        steps = [step for buffer in self._buffers.values() if (step := buffer.take()) is not None]
        if steps:
            self.index.apply(fold(steps, self.index))
            self._folded(self.index)
        self._world.after(_ROUND_US, self.process, self._round)
