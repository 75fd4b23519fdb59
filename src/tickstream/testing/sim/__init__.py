"""The simulator: the real dispatcher, worker and projection on a simulated log, from a seed.

No thread, no socket, no real clock may enter here. What is promised is judged elsewhere (tests/sim).
"""

from tickstream.testing.sim.plan import Plan, make_plan
from tickstream.testing.sim.simulation import Result, Simulation

__all__ = ["Plan", "Result", "Simulation", "make_plan"]
