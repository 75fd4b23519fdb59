"""Which jars make the dev broker: the pinned list beside this file, read into values.

Pure but for reading that list: nothing is downloaded or resolved here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath

KAFKA_VERSION = "4.4.0"
LOCK_NAME = "kafka.lock"

ROOTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    # Kafka's own tools; ProducerPerformance among them is the bench's independent produce floor.
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    # Logs to standard error, so that a failed start can say why.
    "org.slf4j:slf4j-simple:1.7.36",
)
"""What is asked for; the lock has these and everything that they need."""


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One jar, exactly: its Maven coordinates, its size in bytes, and the SHA-256 of its content in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def path(self) -> PurePosixPath:
        """Its place in a Maven repository."""
        name = f"{self.artifact}-{self.version}.jar"
        return PurePosixPath(*self.group.split("."), self.artifact, self.version, name)

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def parse_lock(text: str) -> tuple[LockedJar, ...]:
    """Lines `group:artifact:version size sha256`, in class path order; lines with `#` are comments."""
    return tuple(_parse_line(line) for line in text.splitlines() if line and not line.startswith("#"))


def _parse_line(line: str) -> LockedJar:
    coordinates, size, sha256 = line.split()
    group, artifact, version = coordinates.split(":")
    return LockedJar(group, artifact, version, int(size), sha256)


def render_lock(jars: tuple[LockedJar, ...]) -> str:
    """The text that `parse_lock` reads."""
    head = "# The dev broker's class path; made by: python -m tickstream.broker.relock\n"
    return head + "".join(f"{jar} {jar.size} {jar.sha256}\n" for jar in jars)


def locked_jars() -> tuple[LockedJar, ...]:
    """The jars of KAFKA_VERSION, in class path order."""
    return parse_lock(files(__package__).joinpath(LOCK_NAME).read_text("ascii"))
