"""The dev broker: a real Apache Kafka on this machine, from Python packages only.

Nothing here talks to a broker as a client: kafka.py does.
"""

from tickstream.broker.cluster import DevBroker
from tickstream.broker.install import Progress, provision
from tickstream.broker.runtime import Runtime

__all__ = ["DevBroker", "Progress", "Runtime", "provision"]
