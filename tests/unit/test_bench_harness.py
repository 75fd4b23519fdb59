"""The bench harness: statistics, the JSON object, flagged floors, and the reckoning of what ran.

Nothing timed is asserted here; the figures themselves are made by `python -m bench`.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from statistics import quantiles

import pytest

from bench import stats
from bench.__main__ import main
from bench.environment import cpu_s, environment, rss_bytes
from bench.harness import EXPECTED, Result, check_name, document, floor_low
from bench.outcomes import reckon
from bench.raw.consuming import Told
from bench.raw.records import Stamp, command_messages, sizes, stamp_of, stamped
from bench.registry import BENCHMARKS
from bench.table import table
from bench.worker import reckon as reckon_worker
from tickstream.codec import decode_batch, encode_reports
from tickstream.model import History, Outcome, Report, ReportKind, Rev, bucket_of

DUE = 1_900_000_000_000


# --------------------------------------------------------------------------- statistics


def test_a_percentile_is_the_nearest_rank() -> None:
    hundred = [float(n) for n in range(100, 0, -1)]
    assert stats.percentile(hundred, 0.50) == 50
    assert stats.percentile(hundred, 0.99) == 99
    assert stats.percentile(hundred, 0.999) == 100
    assert stats.percentile(hundred, 1.0) == 100
    assert stats.percentile([7.0], 0.01) == 7


@pytest.mark.parametrize("share", [0.07, 0.14, 0.28, 0.29, 0.57])
def test_a_percentile_is_not_moved_by_binary_fractions(share: float) -> None:
    # In binary 0.07 * 100 is a little more than 7.
    assert stats.percentile(range(1, 101), share) == round(share * 100)


def test_a_percentile_agrees_with_the_standard_library_on_many_samples() -> None:
    samples = [random.Random(1).gauss(10, 3) for _ in range(10_000)]
    assert stats.percentile(samples, 0.99) == pytest.approx(quantiles(samples, n=100)[98], rel=0.01)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_a_share_outside_zero_to_one_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        stats.percentile([1.0], share)


def test_nothing_is_said_of_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        stats.latency([])


def test_a_latency_is_named_with_its_unit() -> None:
    assert stats.latency([3.0, 1.0, 2.0], "echo") == {
        "echo_p50_ms": 2.0,
        "echo_p99_ms": 3.0,
        "echo_p999_ms": 3.0,
        "echo_max_ms": 3.0,
    }


def test_rounds_are_interleaved() -> None:
    order: list[str] = []

    def measure(name: str) -> float:
        order.append(name)
        return len(order)

    taken = stats.interleaved({"a": lambda: measure("a"), "b": lambda: measure("b")}, rounds=3)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert taken == {"a": [1, 3, 5], "b": [2, 4, 6]}


def test_a_ratio_needs_a_floor() -> None:
    assert stats.ratio(1, 3) == 0.333
    with pytest.raises(ValueError, match="floor"):
        stats.ratio(1, 0)


# --------------------------------------------------------------------------- the JSON object


def test_the_object_has_its_fields_and_is_json() -> None:
    result = Result(
        metrics={"p99_ms": 20.5, "lost": 0},
        floor={"committed_p99_ms": 18.0},
        ratio={"floor": 1.139},
        settings={"transactional": {"linger.ms": 2}},
    )
    shown = json.loads(json.dumps(document("lateness", result, environment("4.4.0"), quick=True)))
    assert list(shown) == ["bench", "metrics", "floor", "floor_low", "ratio", "env", "quick"]
    assert shown["bench"] == "lateness"
    assert shown["metrics"] == {"p99_ms": 20.5, "lost": 0}
    assert shown["floor"]["settings"] == {"transactional": {"linger.ms": 2}}
    assert shown["quick"] is True
    assert {"cpus", "kernel", "python", "librdkafka", "kafka", "load_average_before"} <= shown["env"].keys()


@pytest.mark.parametrize(
    "name",
    [
        "p99_ms",
        "per_s",
        "single_per_s",
        "rss_bytes",
        "cpu_s",
        "lost",
        "early",
        "max_us_per_next",
        "age_ratio",
    ],
)
def test_names_that_say_their_unit_pass(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["p99", "throughput", "latency", "rss_mb"])
def test_a_figure_without_a_unit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        document("floor", Result({name: 1.0}, {}, {}), {}, quick=False)


def test_low_floors_are_flagged_at_half_of_what_is_expected() -> None:
    half = EXPECTED["produce_per_s"].figure / 2
    assert floor_low({"produce_per_s": half - 1, "other_per_s": 0}) == ["produce_per_s"]
    assert floor_low({"produce_per_s": half}) == []


def test_of_a_time_twice_as_long_is_low() -> None:
    twice = EXPECTED["committed_p99_ms"].figure * 2
    assert floor_low({"committed_p99_ms": twice + 1}) == ["committed_p99_ms"]
    assert floor_low({"committed_p99_ms": twice}) == []


# --------------------------------------------------------------------------- the command line


def test_every_benchmark_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for benchmark in BENCHMARKS.values():
        assert benchmark.name in shown


def test_an_unknown_benchmark_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["no-such-benchmark"])
    assert ended.value.code == 2
    assert "no-such-benchmark" in capsys.readouterr().err


# --------------------------------------------------------------------------- raw records


def test_raw_messages_are_real_commands_in_their_buckets() -> None:
    messages = command_messages(50, 8)
    assert messages == command_messages(50, 8)
    for message in messages:
        (command,) = decode_batch(message.value).commands
        assert message.key == command.task_id.encode()
        assert message.partition == bucket_of(command.task_id, 8)


def test_sizes_are_those_of_the_codec() -> None:
    found = sizes()
    assert found.command_bytes == pytest.approx(len(command_messages(1, 8)[0].value), abs=8)
    assert all(size > 20 for size in found)


def test_a_stamp_survives_and_keeps_the_size() -> None:
    value = stamped(Stamp(1_900_000_000_123.25, 77), bytes(167))
    assert len(value) == 167
    assert stamp_of(value) == Stamp(1_900_000_000_123.25, 77)


def test_a_process_says_what_it_uses() -> None:
    assert rss_bytes(os.getpid()) > 1_000_000
    assert cpu_s(os.getpid()) > 0


# --------------------------------------------------------------------------- what ran


def history(task_id: str, *, late_ms: int = 5, outcome: Outcome = Outcome.SUCCEEDED) -> History:
    at = DUE + late_ms
    return History(
        1, task_id, DUE, 1, Rev(1, 0), outcome, at, "default", "noop", "w", bytes(16), at, at, at, at, ""
    )


def test_a_clean_run_has_no_sins() -> None:
    works = Counter({("a", DUE, 1): 1, ("b", DUE, 1): 1})
    found = reckon({"a": DUE, "b": DUE}, [history("b"), history("a")], works)
    assert [h.task_id for h in found.ran] == ["a", "b"]
    assert (found.lost, found.duplicates, found.early) == (0, 0, 0)


def test_a_task_without_an_outcome_is_lost() -> None:
    found = reckon({"a": DUE, "b": DUE}, [history("a")], Counter())
    assert found.lost == 1


def test_a_dead_task_did_not_run() -> None:
    found = reckon({"a": DUE}, [history("a", outcome=Outcome.DEAD)], Counter())
    assert (len(found.ran), found.lost) == (0, 1)


def test_surplus_work_and_surplus_outcomes_are_duplicates() -> None:
    works = Counter({("a", DUE, 1): 3, ("a", DUE, 2): 1})
    found = reckon({"a": DUE}, [history("a"), history("a", late_ms=9)], works)
    assert found.duplicates == 3
    assert [h.started_ms for h in found.ran] == [DUE + 5]


def test_an_attempt_that_ended_is_no_outcome_of_its_occurrence() -> None:
    works = Counter({("a", DUE, 1): 1, ("a", DUE, 2): 1})
    ended = [history("a", outcome=Outcome.LEASE_EXPIRED), history("a")]
    found = reckon({"a": DUE}, ended, works)
    assert (len(found.ran), found.lost, found.duplicates, found.double_outcomes) == (1, 0, 0, 0)
    assert reckon({"a": DUE}, [*ended, history("a")], works).double_outcomes == 1


def test_a_start_before_the_instant_is_early() -> None:
    found = reckon({"a": DUE, "b": DUE}, [history("a", late_ms=-1), history("b", late_ms=0)], Counter())
    assert found.early == 1


# --------------------------------------------------------------------------- tables


def shown(*, quick: bool) -> dict[str, object]:
    result = Result(
        metrics={"p99_ms": 20.5, "lost": 0},
        floor={"p99_ms": 10.25, "raw_per_s": 123_456},
        ratio={"floor": 2.0},
        settings={"transactional": {}},
    )
    return document("lateness", result, environment("4.4.0"), quick=quick)


def test_a_table_has_the_floor_beside_the_figure() -> None:
    lines = table(shown(quick=False)).splitlines()
    assert "| p99_ms | 20.5 | 10.25 |" in lines
    assert "| raw_per_s |  | 123,456 |" in lines
    assert "| lost | 0 |  |" in lines
    assert "| floor | 2 |" in lines
    assert "load average" in lines[0]


def test_a_quick_run_is_never_quoted() -> None:
    with pytest.raises(ValueError, match="never quoted"):
        table(shown(quick=True))


# --------------------------------------------------------------------------- worker


def told(at_ms: int, *task_ids: str, kind: ReportKind = ReportKind.SUCCEEDED) -> Told:
    reports = [Report(kind, task_id, DUE, 1, bytes(16), "noop", DUE, DUE, DUE, "") for task_id in task_ids]
    return Told(at_ms, encode_reports("worker", reports))


def test_a_worker_is_timed_from_its_first_message_of_reports_to_its_last() -> None:
    messages = [told(1_000, "a"), told(1_000, "b"), told(1_200, "c", "d"), told(1_500, "e")]
    worked = reckon_worker(messages, 5, cpu=0.001)
    assert worked == ((3 / 0.5, 200.0), 0, 0)


def test_a_run_that_nothing_is_said_of_or_twice_is_counted() -> None:
    messages = [told(1_000, "a", "b"), told(1_100, "b"), told(1_100, "c", kind=ReportKind.CLAIMED)]
    _, lost, duplicates = reckon_worker(messages, 3, cpu=1.0)
    assert (lost, duplicates) == (1, 1)
