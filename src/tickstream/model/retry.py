"""How failed work is tried again, as values: made by the writer of a handler, carried by its tasks.

No wire and no dispatcher's state may enter here; when an attempt is due is the dispatcher's decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tickstream.errors import InvalidInput
from tickstream.model.commands import RunTerms
from tickstream.model.outcomes import NO_RETRY
from tickstream.model.times import NEVER

MIN_LEASE: Final = timedelta(milliseconds=300)
"""Three heartbeats of 100 ms: a shorter lease would be lost to the reports' own batching."""
_LONGEST_MS: Final = 2**31 - 1
"""Of an Avro int: 24 days."""


@dataclass(frozen=True, slots=True)
class Never:
    """The answer of `Retry.when` for work that has to be given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a failed attempt is followed by another.

    Attempt n+1 comes `backoff` × 2ⁿ⁻¹ after the failure of attempt n, at most `cap`, give or take a
    jitter that the dispatcher derives from task and occurrence: the same in every replay.
    """

    attempts: int = 5
    """Failures and lost runs until the work is given up; 1: never a second try."""
    backoff: timedelta = timedelta(seconds=1)
    cap: timedelta = timedelta(minutes=10)
    never: tuple[type[BaseException], ...] = ()
    """Exceptions, and their subclasses, after which another attempt is pointless."""
    when: Callable[[BaseException, int], timedelta | Never | None] | None = None
    """Asked for every other failure, with the exception and its attempt: the pause before the next
    attempt, `Never()`, or None for what the backoff says."""

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        if type(self.attempts) is not int or not 1 <= self.attempts <= 1_000:
            raise InvalidInput(f"Retry(attempts={self.attempts!r}): a number from 1 to 1000")
        milliseconds("backoff", self.backoff, timedelta(0))
        milliseconds("cap", self.cap, self.backoff)
        if not isinstance(self.never, tuple) or not all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in self.never
        ):
            raise InvalidInput(f"Retry(never={self.never!r}): a tuple of exception classes")

    def retry_ms(self, error: BaseException, attempt: int) -> int:
        """What a report says of this failure: a pause in ms, NEVER (the backoff decides), or NO_RETRY.

        Raises whatever `when` raises, and InvalidInput when it answers something else.
        """
        if isinstance(error, self.never):
            return NO_RETRY
        answer = None if self.when is None else self.when(error, attempt)
        if answer is None:
            return NEVER
        if isinstance(answer, Never):
            return NO_RETRY
        return milliseconds("Retry.when's answer", answer, timedelta(0))


def overridden(
    terms: RunTerms,
    lease: timedelta | None = None,
    timeout: timedelta | None = None,
    retry: Retry | None = None,
) -> RunTerms:
    """`terms` with what is given in their place. Raises InvalidInput."""
    if lease is not None:
        terms = terms._replace(lease_ms=milliseconds("lease", lease, MIN_LEASE))
    if timeout is not None:
        terms = terms._replace(timeout_ms=milliseconds("timeout", timeout, timedelta(milliseconds=1)))
    if retry is not None:
        terms = terms._replace(
            attempts=retry.attempts,
            backoff_ms=milliseconds("backoff", retry.backoff, timedelta(0)),
            backoff_cap_ms=milliseconds("cap", retry.cap, timedelta(0)),
        )
    return terms


def milliseconds(name: str, value: timedelta, least: timedelta) -> int:
    """A duration in ms, parts of one rounded up. Raises InvalidInput below `least` or beyond 24 days."""
    if not isinstance(value, timedelta):
        raise InvalidInput(f"{name}={value!r}: a datetime.timedelta, for example timedelta(seconds=10)")
    if value < least:
        raise InvalidInput(f"{name}={value}: at least {least}")
    ms = -(-value // timedelta(milliseconds=1))
    if ms > _LONGEST_MS:
        raise InvalidInput(f"{name}={value}: at most 24 days")
    return ms


DEFAULT_RETRY: Final = Retry()
