"""What a mutant is: a deliberate fault of the protocol, one line, and the promise that it breaks.

A patch of the real code while histories run. It is caught when the auditor names the promise that
stands here beforehand; a crash does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

Patch = Callable[[], AbstractContextManager[object]]


class Mutant(NamedTuple):
    """One fault."""

    name: str
    promise: str
    """The one that the auditor has to name."""
    apply: Patch


MUTANTS: Final[list[Mutant]] = []


def mutant(promise: str, name: str) -> Callable[[Patch], Patch]:
    """Register a fault."""

    def register(apply: Patch) -> Patch:
        MUTANTS.append(Mutant(name, promise, apply))
        return apply

    return register


def instead(owner: Any, name: str, new: object) -> AbstractContextManager[object]:
    """`owner.name` is `new` for a while. Raises AttributeError where there is no such thing."""
    return patch.object(owner, name, new)
