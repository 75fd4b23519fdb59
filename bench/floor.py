"""`floor`: what librdkafka and the broker do here without the product, and Kafka's own tool beside it.

No part of the product runs.
"""

from __future__ import annotations

import argparse
from typing import Final

from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Figures, Result
from bench.raw import echo, produce, runs
from bench.raw.configuration import CONSUMER, PRODUCER
from bench.raw.records import command_messages, sizes
from bench.stats import interleaved, latency, median, ratio
from tickstream.settings import Settings
from tickstream.topics import TopicNames

WARM_UP_S: Final = 2.0
RATE_PER_S: Final = 2_000


def run(bench: Bench) -> Result:
    """Raw produce (three ways) and ProducerPerformance, consume, the transactional loop, timers, echo."""
    settings = bench.cluster.installation("floor")
    topic = TopicNames(settings.prefix).commands
    # First, on a quiet disk: what produce leaves behind is written back for seconds.
    timed, timed_run = _timed(bench, settings)
    produced = _produce(bench, settings, topic)
    bench.say("consume")
    ends = runs.ends(settings, topic)
    consumed = echo.consume_per_s(settings, topic, ends)
    bench.say("transactional loop, 1 in and 2 out, two producers in turn")
    copied = runs.transactional_per_s(settings, min(ends.values()) if bench.quick else 60_000)
    mine = max(produced["acked"], produced["batch_acked"])
    metrics: dict[str, float] = {
        "produce_per_s": round(mine),
        "produce_single_acked_per_s": round(produced["acked"]),
        "produce_batch_acked_per_s": round(produced["batch_acked"]),
        "produce_unreported_per_s": round(produced["unreported"]),
        "consume_per_s": round(consumed),
        "transactional_per_s": round(copied),
        "transactional_out_per_s": round(2 * copied),
        **timed,
        "scheduled": timed_run.scheduled,
        "lost": timed_run.lost,
        "duplicates": timed_run.duplicates,
        "early": timed_run.early,
    }
    return Result(
        metrics=metrics,
        floor={"java_produce_per_s": round(produced["java"])},
        ratio={"floor": ratio(mine, produced["java"]), "transactional_over_produce": ratio(copied, mine)},
        settings={
            "produce": PRODUCER | {"keyed": True, "message_bytes": sizes().command_bytes},
            "java": dict(setting.split("=") for setting in produce.JAVA),
            "consume": CONSUMER | {"isolation.level": "read_committed"},
            "transactional": runs.transactional_settings(),
            "echo": echo.ECHO,
        },
        ok=not (timed_run.lost or timed_run.duplicates or timed_run.early),
    )


def _produce(bench: Bench, settings: Settings, topic: str) -> dict[str, float]:
    """Medians of interleaved rounds, messages a second. Fills `topic`."""
    messages = command_messages(50_000 if bench.quick else 150_000, BUCKETS)
    java_records = 100_000 if bench.quick else 400_000
    # A fresh broker's code is not compiled yet; whoever came first would pay for it.
    produce.acked_per_s(settings, topic, messages[:30_000])
    bench.say("produce, and Kafka's ProducerPerformance, in turn")
    taken = interleaved(
        {
            "acked": lambda: produce.acked_per_s(settings, topic, messages),
            "batch_acked": lambda: produce.batch_acked_per_s(settings, topic, messages),
            "unreported": lambda: produce.unreported_per_s(settings, topic, messages),
            "java": lambda: produce.java_per_s(
                bench.cluster.runtime,
                settings,
                topic,
                records=java_records,
                record_bytes=sizes().command_bytes,
            ),
        },
        rounds=1 if bench.quick else 3,
    )
    return {name: median(rates) for name, rates in taken.items()}


def _timed(bench: Bench, settings: Settings) -> tuple[Figures, runs.TimerRun]:
    """Lateness of the bare lanes, and of a plain echo, at the rate."""
    rate, seconds = bench.options.rate, 3.0 if bench.quick else 10.0
    warm_up = 0.5 if bench.quick else WARM_UP_S
    bench.say(f"timers on bare lanes at {rate}/s")
    timed = runs.timers(settings, rate_per_s=rate, seconds=seconds, warm_up_s=warm_up)
    bench.say(f"echo at {rate}/s")
    echoed = runs.echo_ms(settings, rate_per_s=rate, seconds=seconds / 2, warm_up_s=warm_up / 2)
    figures = {
        "rate_per_s": rate,
        **latency(timed.committed_ms, "committed"),
        **latency(timed.fetched_ms, "fetched"),
        **latency(echoed, "echo"),
    }
    return figures, timed


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate", type=int, default=RATE_PER_S, help="timers and echoes a second (%(default)s)"
    )


BENCHMARK: Final = Benchmark("floor", "raw produce, consume, transactions, timers and echo", run, _options)
