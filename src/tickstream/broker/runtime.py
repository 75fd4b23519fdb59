"""A Java and a Kafka on disk, as a value.

Neither fetched (install.py) nor run (node.py) here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Java and the class path of a Kafka; any of Kafka's main classes can be run with it."""

    java: Path
    classpath: tuple[Path, ...]
    kafka_version: str
    aot_cache: Path | None = None
    """Kafka's classes, loaded and linked ahead of time (JEP 514): a node starts in less than half the time."""

    def command(self, main_class: str, *arguments: str, jvm_options: tuple[str, ...] = ()) -> list[str]:
        """The command line that runs `main_class`."""
        classpath = os.pathsep.join(str(jar) for jar in self.classpath)
        return [str(self.java), *jvm_options, "-cp", classpath, main_class, *arguments]
