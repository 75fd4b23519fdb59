"""The command line: `python -m bench NAME [--quick] [--json]`.

Reads arguments and prints; what is measured is each benchmark's own.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType
from typing import NoReturn

from bench.cluster import cluster
from bench.environment import environment
from bench.harness import Bench, Benchmark, Result, document
from bench.registry import BENCHMARKS
from tickstream.errors import BrokerUnavailable, TickstreamError

OK, NO, UNAVAILABLE, INTERRUPTED = 0, 1, 3, 130
"""Exit codes, as the `tickstream` command has them (2, wrong usage, is argparse's)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; the exit code. 1: it failed, or a promise was broken."""
    options = _parser().parse_args(arguments)
    benchmark: Benchmark = options.benchmark
    # Ends as Ctrl-C does: through every context manager, so that nothing is left running.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with cluster() if benchmark.broker else nullcontext() as kafka:
            env = environment("none" if kafka is None else kafka.version)
            result = benchmark.run(Bench(kafka, options, options.quick, _say))
    except TickstreamError as error:
        _say(f"{benchmark.name}: {error}")
        return UNAVAILABLE if isinstance(error, BrokerUnavailable) else NO
    except KeyboardInterrupt:
        _say(f"{benchmark.name}: interrupted, nothing is left running")
        return INTERRUPTED
    shown = document(benchmark.name, result, env, quick=options.quick)
    if options.json:
        print(json.dumps(shown))
    else:
        _print(benchmark, result, shown)
    return OK if result.ok else NO


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks with the raw floor beside them, on a dev broker or on TICKSTREAM_BOOTSTRAP.",
    )
    names = parser.add_subparsers(metavar="NAME", required=True)
    for benchmark in BENCHMARKS.values():
        one = names.add_parser(benchmark.name, help=benchmark.summary, description=benchmark.summary)
        one.add_argument(
            "--quick", action="store_true", help="a short run, to see that it works: never quoted"
        )
        one.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
        benchmark.add_options(one)
        one.set_defaults(benchmark=benchmark)
    return parser


def _print(benchmark: Benchmark, result: Result, shown: dict[str, object]) -> None:
    print(f"{benchmark.name}: {benchmark.summary}")
    for title, figures in (("measured", result.metrics), ("floor", result.floor), ("ratio", result.ratio)):
        for name, figure in figures.items():
            print(f"  {title:9} {name:28} {figure:>14,g}")
    for name, setting in result.settings.items():
        print(f"  settings  {name:28} {setting}")
    if shown["floor_low"]:
        print(f"  floors below half of what is expected, so the ratios flatter: {shown['floor_low']}")
    if shown["quick"]:
        print("  a quick run: never quoted")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
