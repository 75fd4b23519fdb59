"""Retries, lease and timeout as `task schedule` takes them."""

from datetime import timedelta

import pytest

from tickstream.cli.terms import retry_of, seconds
from tickstream.errors import InvalidInput
from tickstream.model import DEFAULT_RETRY, Retry


def test_what_is_not_given_stays_the_handlers() -> None:
    assert retry_of(None, None) is None
    assert seconds(None) is None
    assert seconds(0.5) == timedelta(milliseconds=500)


def test_what_is_given_stands_in_for_the_default() -> None:
    assert retry_of(3, None) == Retry(attempts=3)
    assert retry_of(None, 0.25) == Retry(backoff=timedelta(milliseconds=250))
    assert retry_of(1, 2) == Retry(attempts=1, backoff=timedelta(seconds=2), cap=DEFAULT_RETRY.cap)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput):
        retry_of(0, None)
