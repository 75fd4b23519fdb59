"""Other packages' own iCalendar files, fetched as sdists by pip and kept in the cache; and recurring-ical-events.

The peer lies in a directory of its own: it takes dateutil's name with an older release.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tickstream.settings import cache_dir

SDISTS: Final = ("icalendar==7.3.2", "recurring-ical-events==3.8.2")
"""Two packages by different people, with files of many programs."""
PEER: Final = "recurring-ical-events==3.8.2"
START_MS, END_MS = 0, 1_924_992_000_000
"""1970 to 2031, UTC: where occurrences are compared."""


def files() -> dict[str, list[Path]]:
    """The `.ics` files of each sdist by its name and version."""
    return {sdist: sorted(_unpacked(sdist).rglob("*.ics")) for sdist in SDISTS}


def peer_occurrences(paths: list[Path]) -> dict[Path, set[tuple[str, int, int]] | str]:
    """(uid, start, end; ms, UTC) of what takes place by the peer, floating time read as UTC; or what it raised."""
    asked = {"files": [str(path) for path in paths], "start_ms": START_MS, "end_ms": END_MS}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ical_peer_child.py"))],
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": str(_installed(PEER))},
        check=True,
        capture_output=True,
        text=True,
    )
    answers: dict[str, list[tuple[str, int, int]] | str] = json.loads(done.stdout)
    return {
        Path(path): answer if isinstance(answer, str) else {(uid, start, end) for uid, start, end in answer}
        for path, answer in answers.items()
    }


def _unpacked(sdist: str) -> Path:
    directory = cache_dir() / "tests" / sdist
    if not directory.is_dir():
        name = sdist.split("==")[0]
        fetched = directory.with_name(f"{sdist}-sdist")
        _pip("download", "--no-deps", "--no-binary", name, "--dest", str(fetched), sdist)
        (archive,) = fetched.glob("*.tar.gz")
        part = directory.with_name(f"{sdist}-{os.getpid()}")
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        _into_place(part, directory)
    return directory


def _installed(package: str) -> Path:
    directory = cache_dir() / "tests" / f"{package}-installed"
    if not directory.is_dir():
        part = directory.with_name(f"{directory.name}-{os.getpid()}")
        _pip("install", "--target", str(part), package)
        _into_place(part, directory)
    return directory


def _into_place(part: Path, directory: Path) -> None:
    """Whole or not at all; another process may have been first."""
    if not directory.is_dir():
        part.rename(directory)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)
