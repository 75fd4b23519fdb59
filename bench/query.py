"""`query`: a thousand rows of one minute out of ten thousand, a million and ten million, in process and over HTTP.

The index is filled by the projection's own writer (index_fill.py). Readers are processes of their own, as
a dashboard is; while they are measured again, the writer takes in updates. How fast an index is built from
Kafka is measured apart, beside plain consuming and decoding of the same records (index_build.py).
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from bench.environment import rss_bytes
from bench.harness import Bench, Benchmark, Result
from bench.index_build import build
from bench.index_fill import NOON_MS, RARE, fill, move, open_index, run_at
from bench.stats import percentile, ratio
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.projection import answers, keys
from tickstream.projection.families import FAMILY_OF
from tickstream.projection.freshness import freshness
from tickstream.projection.index import IndexWriter
from tickstream.projection.query import Window
from tickstream.projection.reader import IndexReader

ROWS: Final = 1_000_000
SIZES: Final = (10_000, 1_000_000, 10_000_000)
LIMIT: Final = 1_000
MINUTE_MS: Final = 60_000
UPDATES_PER_S: Final = 2_000
_BATCHES_PER_S: Final = 50
_READY_S: Final = 60.0


class Answers(NamedTuple):
    """What a reader measured."""

    ms: list[float]
    rows: int
    visited: int


class _At(NamedTuple):
    """All that was measured at one size."""

    inside: Answers
    over_http: Answers
    filtered: Answers
    updated: Answers
    updated_http: Answers
    full_scan_ms: float
    disk_bytes: int
    dashboard_rss_bytes: int
    updates_per_s: float
    """That arrived while it was asked."""


def run(bench: Bench) -> Result:
    """Grow one index; at each size, the same questions."""
    rows: int = bench.options.rows if not bench.quick else 20_000
    rounds: int = bench.options.rounds if not bench.quick else 50
    sizes = sorted({size for size in SIZES if size < rows} | {rows})
    found: dict[int, _At] = {}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as scratch, context.Pool(1) as reader:
        data_dir = Path(scratch)
        with open_index(data_dir) as index:
            done = 0
            for size in sizes:
                began = time.perf_counter()
                fill(index, done, size, bench.say)
                bench.say(f"{size} rows are there, after {time.perf_counter() - began:.0f} s")
                done = size
                found[size] = _measure(index, data_dir, reader, size, rounds)
    built = build(bench, 5_000 if bench.quick else bench.options.build_rows)
    return _result(found, built._asdict(), rows)


def _measure(index: IndexWriter, data_dir: Path, reader: Pool, size: int, rounds: int) -> _At:
    def ask(how: Callable[..., Answers], *more: object) -> Answers:
        return reader.apply(how, (data_dir, size, rounds, *more))

    with _dashboard(data_dir) as dashboard:
        url = str(dashboard.wait_event("ready", _READY_S)["url"])
        inside, over_http, filtered = ask(_inside, ""), ask(_over_http, url), ask(_inside, RARE)
        with _updates(index, size) as applied:
            began = time.perf_counter()
            updated, updated_http = ask(_inside, ""), ask(_over_http, url)
            rate = sum(applied) / (time.perf_counter() - began)
        rss = rss_bytes(dashboard.pid)
    scanned = reader.apply(_full_scan_ms, (data_dir,))
    disk = sum(file.stat().st_size for file in data_dir.rglob("*") if file.is_file())
    return _At(inside, over_http, filtered, updated, updated_http, scanned, disk, rss, rate)


@contextmanager
def _dashboard(data_dir: Path) -> Iterator[ManagedProcess]:
    command = tickstream_command("dashboard", "run", "--json", "--port=0", f"--data={data_dir}")
    with ManagedProcess.start(command, name="dashboard") as process:
        yield process


@contextmanager
def _updates(index: IndexWriter, size: int) -> Iterator[list[int]]:
    """Tasks are replaced, at the rate, by the projection's writer, for as long as it lasts; how many, by batch."""
    applied: list[int] = []
    stop = threading.Event()
    share = UPDATES_PER_S // _BATCHES_PER_S

    def update() -> None:
        at, round_, due = 0, 0, time.monotonic()
        while not stop.is_set():
            # Every other number waits; the finished ones do not move.
            end = min(size, at + 2 * share)
            move(index, range(at, end), round_)
            applied.append((end - at) // 2)
            at, round_ = (0, round_ + 1) if end == size else (end, round_)
            due += 1 / _BATCHES_PER_S
            stop.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=update, name="updates")
    thread.start()
    try:
        yield applied
    finally:
        stop.set()
        thread.join()


# --------------------------------------------------------------------------- readers


def _minutes(size: int, rounds: int) -> Iterator[int]:
    """Starts of minutes that are full, at random."""
    choice = random.Random(size)
    first, last = run_at((size - 1) // 2 * 2), run_at((size - 2) // 2 * 2 + 1)
    for _ in range(rounds):
        yield choice.randrange(first, max(first + 1, last - MINUTE_MS))


def _inside(data_dir: Path, size: int, rounds: int, queue: str) -> Answers:
    """The answer of /api/tasks as bytes, without HTTP."""
    taken: list[float] = []
    rows = visited = 0
    with IndexReader(data_dir) as reader:
        for start in _minutes(size, rounds):
            window = Window(start_ms=start, end_ms=start + MINUTE_MS, queue=queue, limit=LIMIT)
            began = time.perf_counter()
            with reader.view() as view:
                answer = answers.page(view, window, freshness(view.positions(), NOON_MS, view.of_buckets()))
            taken.append((time.perf_counter() - began) * 1_000)
            told = json.loads(answer)
            rows, visited = rows + len(told["rows"]), visited + told["visited"]
    return Answers(taken, rows, visited)


def _over_http(_data_dir: Path, size: int, rounds: int, url: str) -> Answers:
    """The same through the dashboard's socket, on one connection, until the last byte is read."""
    taken: list[float] = []
    rows = visited = 0
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    for start in _minutes(size, rounds):
        query = urlencode({"start": start, "end": start + MINUTE_MS, "limit": LIMIT})
        began = time.perf_counter()
        connection.request("GET", f"/api/tasks?{query}")
        body = connection.getresponse().read()
        taken.append((time.perf_counter() - began) * 1_000)
        told = json.loads(body)
        rows, visited = rows + len(told["rows"]), visited + told["visited"]
    connection.close()
    return Answers(taken, rows, visited)


def _full_scan_ms(data_dir: Path) -> float:
    """What the same question costs without an index: every row is looked at once."""
    start = NOON_MS - 10 * MINUTE_MS
    found = 0
    with IndexReader(data_dir) as reader, reader.view() as view:
        began = time.perf_counter()
        for family in set(FAMILY_OF.values()):
            for key, _ in view.scan(family, b"", keys.END):
                found += start <= keys.read_instant(key) < start + MINUTE_MS
        return (time.perf_counter() - began) * 1_000


# --------------------------------------------------------------------------- the result


def _result(found: dict[int, _At], built: dict[str, float], rows: int) -> Result:
    last, most = found[rows], max(found)
    million = found.get(1_000_000)
    base = million or found[min(found)]
    metrics: dict[str, float] = {
        **_ms("", last.inside),
        **_ms("http_", last.over_http),
        **_ms("filtered_", last.filtered),
        **_ms("updated_", last.updated),
        **_ms("updated_http_", last.updated_http),
        "growth_ratio": ratio(_p99(last.inside), _p99(base.inside)),
        "growth_p50_ratio": ratio(percentile(last.inside.ms, 0.5), percentile(base.inside.ms, 0.5)),
        "visited_per_row_ratio": ratio(last.inside.visited, last.inside.rows),
        "filtered_visited_per_row_ratio": ratio(last.filtered.visited, last.filtered.rows),
        "full_scan_ms": round(last.full_scan_ms, 1),
        "disk_per_row_bytes": round(last.disk_bytes / most, 1),
        "updates_per_s": round(last.updates_per_s),
        "dashboard_rss_bytes": last.dashboard_rss_bytes,
        "dashboard_rss_per_row_bytes": round(last.dashboard_rss_bytes / most, 1),
        "build_rows_per_s": round(built["rows_per_s"]),
        "projection_rss_bytes": built["rss_bytes"],
    }
    for size, at in found.items():
        metrics |= _ms(f"at_{size}_", at.inside) | _ms(f"at_{size}_http_", at.over_http)
    return Result(
        metrics=metrics,
        floor={"consume_and_decode_rows_per_s": round(built["raw_rows_per_s"])},
        ratio={
            "floor": ratio(built["rows_per_s"], built["raw_rows_per_s"]),
            "full_scan": ratio(last.full_scan_ms, percentile(last.inside.ms, 0.5)),
        },
        settings={
            "rows": rows,
            "limit": LIMIT,
            "updates_wanted_per_s": UPDATES_PER_S,
            "queries": len(last.inside.ms),
        },
    )


def _p99(answers: Answers) -> float:
    return percentile(answers.ms, 0.99)


def _ms(name: str, answers: Answers) -> dict[str, float]:
    return {
        f"{name}p50_ms": round(percentile(answers.ms, 0.5), 2),
        f"{name}p99_ms": round(_p99(answers), 2),
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=ROWS, help="of the largest index (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1_000, help="questions of each kind (%(default)s)")
    parser.add_argument(
        "--build-rows", type=int, default=200_000, help="rows that are built from Kafka (%(default)s)"
    )


BENCHMARK: Final = Benchmark(
    "query", "1,000 rows of a minute out of an index of any size, in process and over HTTP", run, _options
)
