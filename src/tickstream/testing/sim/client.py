"""A client process of the simulation: sends commands, and sends them again until they are answered.

Bytes, re-sends and `not_after` as ingest/ makes them; its threads and futures are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tickstream.codec import decode_verdicts, encode_batch, encode_command
from tickstream.ingest.asking import RESEND_S
from tickstream.model import NEVER, Command, Verdict, bucket_key, bucket_of
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import SECOND, Process, World
from tickstream.topics import TopicNames

_PATIENCE_US: Final = 10 * SECOND
"""A client that waits gives up after so long, while things go wrong; afterwards it does not."""


@dataclass(slots=True)
class Asked:
    """A command and what its client knows of it."""

    command: Command
    bucket: int
    waits: bool
    since_us: int
    acked: list[tuple[int, int]] = field(default_factory=list)
    """(offset, item) of every send whose acknowledgement came."""
    verdicts: list[Verdict] = field(default_factory=list)
    gave_up: bool = False


class SimClient:
    """One client. It never crashes: what it knows is what the auditor holds the system to."""

    def __init__(
        self,
        world: World,
        broker: Broker,
        names: TopicNames,
        buckets: int,
        process: Process,
        dice: Dice,
        reply: int,
    ) -> None:
        self.journal: list[Asked] = []
        self.process = process
        self._world = world
        self._broker = broker
        self._names = names
        self._buckets = buckets
        self._dice = dice
        self._reply = reply
        self._by_id: dict[tuple[bytes, int], Asked] = {}
        """By command_id and bucket: one that speaks of a queue goes to each."""
        self._read = 0
        world.start(process)
        broker.partitions[names.verdicts, reply].watch(self._hear_soon)

    def send(self, commands: Sequence[Command], *, waits: bool) -> None:
        """Send commands, those of one bucket in one message."""
        asked = []
        for command in commands:
            everywhere = range(self._buckets)
            home = everywhere if command.verb.of_queue else (bucket_of(command.task_id, self._buckets),)
            for bucket in home:
                entry = self._by_id.get((command.command_id, bucket))
                if entry is None:
                    entry = Asked(command, bucket, waits, self._world.now)
                    self._by_id[command.command_id, bucket] = entry
                    self.journal.append(entry)
                asked.append(entry)
        for bucket in dict.fromkeys(entry.bucket for entry in asked):
            self._produce([entry for entry in asked if entry.bucket == bucket], waits=waits)

    def unanswered(self) -> list[Asked]:
        """Those whose verdict is waited for."""
        return [a for a in self.journal if a.waits and not a.verdicts and not a.gave_up]

    def _produce(self, entries: list[Asked], *, waits: bool) -> None:
        encoded = []
        for entry in entries:
            command = entry.command
            if entry.acked:
                first = min(entry.acked)[0]
                options = command.options._replace(not_after=first)
                command = command._replace(options=options)
            encoded.append(encode_command(command))
        value = encode_batch(self.process.name, self._reply if waits else -1, encoded)
        key = bucket_key(entries[0].command.task_id).encode()
        dice, world, bucket = self._dice, self._world, entries[0].bucket
        lost, unacked = dice.hit(dice.now.write_lost), dice.hit(dice.now.ack_lost)

        def arrives() -> None:
            if lost:
                return
            offset = self._broker.append(self._names.commands, bucket, key, value)
            if not unacked:
                world.after(dice.delay(), self.process, lambda: acked(offset))

        def acked(offset: int) -> None:
            for item, entry in enumerate(entries):
                entry.acked.append((offset, item))

        world.after(dice.delay(), None, arrives)
        # Without an acknowledgement nobody knows: the command is sent again as what it was.
        if waits or lost or unacked:
            world.after(int(RESEND_S * SECOND), self.process, lambda: self._again(entries, waits))

    def _again(self, entries: list[Asked], waits: bool) -> None:
        left = []
        for entry in entries:
            if waits and entry.verdicts:
                continue
            if not self._world.calm and self._world.now - entry.since_us > _PATIENCE_US:
                entry.gave_up = True
                continue
            left.append(entry)
        if left:
            self._produce(left, waits=waits)

    # ------------------------------------------------------------------ answers

    def _hear_soon(self) -> None:
        self._world.after(self._dice.delay(), self.process, self._hear)

    def _hear(self) -> None:
        partition = self._broker.partitions[self._names.verdicts, self._reply]
        records, self._read = partition.read(self._read, 1_000)
        for record in records:
            batch = decode_verdicts(record.value)
            if batch.client_id != self.process.name:
                continue
            for verdict in batch.verdicts:
                if (entry := self._by_id.get((verdict.command_id, verdict.receipt.bucket))) is not None:
                    entry.verdicts.append(verdict)
                    if self._world.trace is not None:
                        self._world.tell(self.process.name, f"hears: {verdict}")


__all__ = ["NEVER", "Asked", "SimClient"]
