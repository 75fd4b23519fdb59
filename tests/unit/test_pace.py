"""The pace of a bulk import: marks, waiting for them, and no waiting for dispatchers that are not there."""

from __future__ import annotations

from tests.unit.client_doubles import ManualClock
from tickstream.ingest.pace import Pace


class Answers:
    """An Asking whose answers come a fixed time after the question; None: never."""

    reply = 3

    def __init__(self, clock: ManualClock, after_s: float | None) -> None:
        self._clock = clock
        self.after_s = after_s
        self.asked: dict[bytes, float] = {}
        self.waited: list[bytes] = []

    def expect(self, command_id: bytes) -> None:
        self.asked[command_id] = self._clock.monotonic()

    def forget(self, command_id: bytes) -> None:
        del self.asked[command_id]

    def is_answered(self, command_id: bytes) -> bool:
        return self.after_s is not None and self._clock.monotonic() - self.asked[command_id] >= self.after_s

    def arrives(self, command_id: bytes, timeout_s: float) -> bool:
        self.waited.append(command_id)
        left = timeout_s
        if self.after_s is not None:
            left = min(left, self.asked[command_id] + self.after_s - self._clock.monotonic())
        self._clock.advance(max(0.0, left))
        return self.is_answered(command_id)


def distances(pace: Pace, count: int, bucket: int = 0) -> list[int]:
    """How many items lie between the marks among the next `count`."""
    marks = [n for n in range(count) if pace.marks(bucket, n.to_bytes(16, "big"))]
    return [after - before for before, after in zip([-1, *marks], marks, strict=False)]


def test_while_the_dispatcher_keeps_up_marks_grow_apart_and_nobody_waits() -> None:
    clock = ManualClock()
    answers = Answers(clock, after_s=0.0)
    apart = distances(Pace(answers, clock), 20_000)  # type: ignore[arg-type]
    assert apart[0] == 256
    assert apart == sorted(apart)
    assert apart[-1] > 2_000
    assert answers.waited == []


def test_a_slow_dispatcher_is_waited_for_and_less_is_sent_ahead() -> None:
    clock = ManualClock()
    answers = Answers(clock, after_s=0.5)
    apart = distances(Pace(answers, clock), 5_000)  # type: ignore[arg-type]
    assert apart[0] == 256
    assert apart[2:] == sorted(apart[2:], reverse=True)
    assert apart[-1] == 32
    assert len(answers.waited) == len(apart) - 1


def test_without_a_dispatcher_the_import_goes_on_after_a_second() -> None:
    clock = ManualClock()
    pace = Pace(Answers(clock, after_s=None), clock)  # type: ignore[arg-type]
    began = clock.monotonic()
    assert distances(pace, 100_000) == [256]
    assert clock.monotonic() - began == 1.0
    clock.advance(10.0)
    assert pace.marks(0, b"again" * 3 + b"!")


def test_each_bucket_has_a_pace_of_its_own() -> None:
    clock = ManualClock()
    pace = Pace(Answers(clock, after_s=0.0), clock)  # type: ignore[arg-type]
    assert distances(pace, 300, bucket=0) == [256]
    assert distances(pace, 255, bucket=1) == []


def test_a_closed_pace_expects_nothing_more() -> None:
    clock = ManualClock()
    answers = Answers(clock, after_s=0.0)
    pace = Pace(answers, clock)  # type: ignore[arg-type]
    distances(pace, 1_000)
    pace.close()
    assert answers.asked == {}
