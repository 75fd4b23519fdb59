"""Free ports on the loopback interface.

A port found free here can be taken a moment later: the caller must be ready to choose again.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from tickstream.broker.config import HOST
from tickstream.errors import BrokerUnavailable

# Below Linux's ephemeral range (32768-60999), where a client that reconnects to a stopped broker would
# sooner or later get the broker's own port as its source port, and with it connect to itself.
_RANGE = range(20_000, 32_000)
_TRIES = 200


def free_ports(count: int, choice: random.Random) -> tuple[int, ...]:
    """`count` different ports that nobody listens on. Raises BrokerUnavailable."""
    found: list[int] = []
    with ExitStack() as held:
        for port in choice.sample(_RANGE, _TRIES):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            # As Kafka will: connections that wait out their end on the port are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return tuple(found)
    raise BrokerUnavailable(f"no {count} free ports found between {_RANGE.start} and {_RANGE.stop} on {HOST}")
