"""Resolve Kafka's dependencies anew and rewrite the list of pinned jars: `python -m tickstream.broker.relock`.

For the maintainer who changes KAFKA_VERSION; nothing at run time imports this.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import jgo

from tickstream.broker.jars import LOCK_NAME, ROOTS, LockedJar, render_lock


def resolve() -> tuple[LockedJar, ...]:
    """Every jar that ROOTS need, by Maven's rules, downloaded and hashed. Raises jgo's errors as they are."""
    jars = []
    for artifact in jgo.resolve("+".join(ROOTS)):
        content = artifact.resolve().read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        jars.append(LockedJar(artifact.groupId, artifact.artifactId, artifact.version, len(content), digest))
    return tuple(jars)


if __name__ == "__main__":
    Path(__file__).with_name(LOCK_NAME).write_text(render_lock(resolve()), "ascii")
