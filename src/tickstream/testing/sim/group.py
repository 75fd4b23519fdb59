"""A simulated consumer group: cooperative, with the orders of events that Kafka allows.

A partition is given to a member only after its last holder gave it back or was thrown out. A member
that was thrown out learns of it late, after others have what it had. Nothing is read or written here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tickstream.testing.sim.world import MS, Process, World


class GroupMember(Protocol):
    """What a process does when the group speaks to it."""

    def on_assign(self, partitions: list[int]) -> None: ...

    def on_revoke(self, partitions: list[int], done: Callable[[], None]) -> None:
        """Give back; `done` once that has happened."""
        ...

    def on_lost(self, partitions: list[int]) -> None: ...


@dataclass(eq=False, slots=True)
class _Seat:
    process: Process
    life: int
    member: GroupMember
    has: set[int] = field(default_factory=set)
    """As the coordinator sees it."""
    knows: set[int] = field(default_factory=set)
    """What the member was told of."""
    out: bool = False

    @property
    def lives(self) -> bool:
        """Whether the incarnation that took this seat is there to be told anything."""
        return self.process.alive and self.process.life == self.life


class SimGroup:
    """The coordinator of one group. `session_us`: silence after which a member is out."""

    def __init__(self, world: World, name: str, partitions: int, session_us: int) -> None:
        self._world = world
        self._name = name
        self._rng = random.Random(f"{world.seed}/{name}")
        self._session_us = session_us
        self._owner: dict[int, _Seat | None] = dict.fromkeys(range(partitions))
        self._seats: list[_Seat] = []
        self._listening: set[Process] = set()
        self.committed: dict[int, int] = {}
        """Offsets, by partition."""

    def join(self, process: Process, member: GroupMember) -> None:
        """A member that is new, or comes back after it was thrown out."""
        if process not in self._listening:
            self._listening.add(process)
            process.on_silence.append(self._silent)
        self._seats.append(_Seat(process, process.life, member))
        self._soon(self._rebalance)

    def leave(self, process: Process) -> None:
        """In good order: it has given everything back."""
        seat = self._seat(process)
        if seat is not None:
            self._throw_out(seat)

    def is_member(self, process: Process) -> bool:
        """What a synchronous commit learns."""
        return self._seat(process) is not None

    def holds(self, process: Process, partition: int) -> bool:
        """Whether a commit of the partition's offset by this member is taken."""
        seat = self._seat(process)
        return seat is not None and partition in seat.has

    def stall(self) -> None:
        """The coordinator is away for longer than a session: every member that lives hears `lost`."""
        for seat in list(self._seats):
            self._evict(seat)

    def _seat(self, process: Process) -> _Seat | None:
        return next((s for s in self._seats if s.process is process and s.life == process.life), None)

    # ------------------------------------------------------------------ silence

    def _silent(self, process: Process) -> None:
        """It crashed or stands still: it is out when it does not come back within its session."""
        seats = [s for s in self._seats if s.process is process]
        for seat in seats:
            self._world.after(self._session_us, None, self._late(seat))

    def _late(self, seat: _Seat) -> Callable[[], None]:
        def check() -> None:
            if not seat.out and (not seat.lives or seat.process.paused_until > self._world.now):
                self._evict(seat)

        return check

    def _evict(self, seat: _Seat) -> None:
        if seat.out:
            return
        self._throw_out(seat)
        if not seat.lives:
            return
        # A paused one hears it when it goes on, some time after its other threads do.
        self._world.after(self._delay(), seat.process, lambda: self._tell_lost(seat))

    def _tell_lost(self, seat: _Seat) -> None:
        lost, seat.knows = sorted(seat.knows), set()
        self._world.tell(seat.process.name, f"{self._name}: lost {lost}")
        seat.member.on_lost(lost)
        self._world.after(self._delay(), seat.process, lambda: self.join(seat.process, seat.member))

    def _throw_out(self, seat: _Seat) -> None:
        seat.out = True
        self._seats.remove(seat)
        for partition in seat.has:
            self._owner[partition] = None
        seat.has = set()
        self._soon(self._rebalance)

    # ------------------------------------------------------------------ rebalance

    def _rebalance(self) -> None:
        """Sticky: everybody keeps up to a fair share; what is free or beyond goes to those below it."""
        if not self._seats:
            return
        seats = sorted(self._seats, key=lambda s: -len(s.has))
        total = len(self._owner)
        least, more = divmod(total, len(seats))
        quota = {id(s): least + (i < more) for i, s in enumerate(seats)}
        for seat in seats:
            surplus = sorted(seat.has)[quota[id(seat)] :]
            if surplus:
                self._revoke(seat, surplus)
        free = [p for p, owner in self._owner.items() if owner is None]
        self._rng.shuffle(free)
        for seat in seats:
            given = [free.pop() for _ in range(min(len(free), quota[id(seat)] - len(seat.has)))]
            if given:
                self._give(seat, given)

    def _give(self, seat: _Seat, partitions: Iterable[int]) -> None:
        given = sorted(partitions)
        for partition in given:
            self._owner[partition] = seat
            seat.has.add(partition)
        self._world.after(self._delay(), seat.process, lambda: self._tell_assigned(seat, given))

    def _tell_assigned(self, seat: _Seat, given: list[int]) -> None:
        mine = [p for p in given if p in seat.has]
        if seat.out or not seat.lives or not mine:
            return
        seat.knows.update(mine)
        self._world.tell(seat.process.name, f"{self._name}: assigned {mine}")
        seat.member.on_assign(mine)

    def _revoke(self, seat: _Seat, partitions: list[int]) -> None:
        """The partitions stay the member's until it says that it has let go."""
        self._world.after(self._delay(), seat.process, lambda: self._tell_revoked(seat, partitions))

    def _tell_revoked(self, seat: _Seat, partitions: list[int]) -> None:
        mine = [p for p in partitions if p in seat.knows and p in seat.has]
        if seat.out or not seat.lives or not mine:
            return
        seat.knows.difference_update(mine)
        self._world.tell(seat.process.name, f"{self._name}: revoked {mine}")

        def done() -> None:
            for partition in mine:
                if partition in seat.has:
                    seat.has.discard(partition)
                    self._owner[partition] = None
            self._soon(self._rebalance)

        seat.member.on_revoke(mine, done)

    def _soon(self, do: Callable[[], None]) -> None:
        self._world.after(self._delay(), None, do)

    def _delay(self) -> int:
        return self._rng.choice((1, 3, 10, 60, 300)) * MS
