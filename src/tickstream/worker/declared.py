"""Recurring tasks that code declares, each checked where it stands.

Pure: nothing is sent from here; what becomes of a declaration is ops/schedules'.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from tickstream.errors import InvalidInput
from tickstream.ingest.recurring import Policies
from tickstream.ingest.request import Item, Requests, item_of
from tickstream.model import AGAIN_LABEL, BACKFILL_LABEL, OWNER_LABEL, BoundCall, Retry

_RESERVED = (OWNER_LABEL, BACKFILL_LABEL, AGAIN_LABEL)


class Declared(Policies, total=False):
    """The arguments of a declaration beside id, rule and call: `Client.schedule` says what they mean."""

    queue: str | None
    labels: Mapping[str, str] | None
    limit_key: str
    lease: timedelta | None
    timeout: timedelta | None
    retry: Retry | None


class Declaration(NamedTuple):
    """A recurring task as it shall be."""

    item: Item
    place: str
    """Where it is declared, as `reports.py:17`."""


def declaration(
    task_id: str, asked: Mapping[str, Any], place: str, handlers: Container[str] | None
) -> Declaration:
    """A declaration of these arguments of `Client.schedule`, checked.

    `handlers`: those that there are, None: not known. Raises InvalidInput, which names the place.
    """
    try:
        return Declaration(_checked(task_id, asked, handlers), place)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: task {task_id!r}: {error}") from error


def _checked(task_id: str, asked: Mapping[str, Any], handlers: Container[str] | None) -> Item:
    call = asked.get("call")
    if "call" in asked and not isinstance(call, BoundCall):
        raise InvalidInput(f"call={call!r}: write call=handler.bind(…)")
    handler = asked["handler"] if call is None else call.handler
    if handlers is not None and handler not in handlers:
        raise InvalidInput(f"there is no handler {handler!r} in this App; register it, or correct the name")
    reserved = sorted(set(_RESERVED) & set(asked.get("labels") or ()))
    if reserved:
        raise InvalidInput(f"label {reserved[0]!r} is tickstream's own; take another name")
    item = item_of(task_id, **asked)
    Requests().checked(*item)
    return item


def caller(depth: int) -> str:
    """`file:line` of the code that called the function, or with a larger depth the one around it."""
    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
