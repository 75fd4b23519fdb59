"""What goes wrong between a process and the broker, and how long things take: dice, nothing else.

Rates are per call and hold until the world is calm. Who is hit by what is decided here, so that a
failing history can be made smaller by turning one kind off.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from tickstream.testing.sim.world import MS, SECOND, World

QUICK_US: Final = (40, 120, 300, 800, 2_000)
"""A call's usual time."""
SLOW_US: Final = (10 * MS, 40 * MS, 150 * MS, 600 * MS)
_LATE_US: Final = 2 * SECOND
INIT_US: Final = (1 * MS, 60 * MS, 250 * MS, 560 * MS)
"""What the coordinator takes for an `init`: as measured, the more the more it has to abort."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often what goes wrong, as a share of its calls."""

    slow: float = 0.02
    """Any call takes long."""
    commit_unknown: float = 0.02
    """A commit whose outcome its caller never learns."""
    aborted: float = 0.02
    """A record is not delivered, or the coordinator asks for an abort."""
    init_lost: float = 0.03
    """An init that took effect, or none, and whose answer is lost."""
    facts_lost: float = 0.01
    """Metadata or ends that cannot be asked."""
    verdict_lost: float = 0.05
    ack_lost: float = 0.03
    """A client's or worker's write that took effect and whose acknowledgement is lost."""
    write_lost: float = 0.02
    """One that did not take effect."""
    signal_lost: float = 0.2
    partial: float = 0.3
    """A fetch that brings less than there is."""

    def without(self, name: str) -> Rates:
        """The same with one kind off."""
        return replace(self, **{name: 0.0})


NONE: Final = Rates(*[0.0] * 10)


@dataclass(slots=True)
class Dice:
    """One process's luck."""

    world: World
    rng: random.Random
    rates: Rates
    _calm: Rates = field(default=NONE)

    @property
    def now(self) -> Rates:
        """The rates that hold."""
        return self._calm if self.world.calm else self.rates

    def hit(self, rate: float) -> bool:
        """Whether it happens this time."""
        return rate > 0 and self.rng.random() < rate

    def delay(self) -> int:
        """How long a call takes, µs."""
        # One throw for both questions: this is asked more often than anything else.
        luck, slow = self.rng.random(), 0.0 if self.world.calm else self.rates.slow
        if luck < slow:
            return SLOW_US[int(luck / slow * len(SLOW_US))]
        return QUICK_US[int((luck - slow) / (1 - slow) * len(QUICK_US))]

    def init(self) -> int:
        """How long the coordinator is busy with an `init`, µs."""
        return MS if self.world.calm else self.rng.choice(INIT_US)

    def later(self) -> int:
        """When a request that its sender gave up on arrives after all, µs."""
        # Soon, or about when its sender, or another, takes the lane over anew.
        return self.rng.choice((500, 20 * MS, self.rng.randrange(_LATE_US), self.rng.randrange(_LATE_US)))
