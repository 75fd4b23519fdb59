"""For users' tests: the real engine on a virtual clock, without a broker.

`pip install tickstream` brings the pytest fixture `tick`, a fresh Harness for every test.
"""

from tickstream.testing.clock import ManualClock
from tickstream.testing.harness import Harness
from tickstream.testing.workers import HarnessRun, HarnessWorker

__all__ = ["Harness", "HarnessRun", "HarnessWorker", "ManualClock"]
