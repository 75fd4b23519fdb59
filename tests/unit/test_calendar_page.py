"""docs/calendar.md: the lines about changes and reminders are run, one after the other, and answered as the page says."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tickstream import App, Context
from tickstream.model import Verdict
from tickstream.testing import Harness

PAGE = (Path(__file__).parents[2] / "docs" / "calendar.md").read_text()
app = App()


@app.handler()
def announce(ctx: Context) -> None:
    """What the page binds."""


@app.handler()
def ring(ctx: Context, where: str) -> None:
    """What the page binds."""


def block(heading: str) -> str:
    """The first block of code behind a heading."""
    found = re.search(r"```python\n(.*?)```", PAGE[PAGE.index(heading) :], re.DOTALL)
    assert found is not None
    return found[1]


def answers(code: str, names: dict[str, Any]) -> list[str]:
    """Run it; the verdicts of the lines that are calls."""
    told = []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "page", "eval"), names)
            if isinstance(value, Verdict):
                told.append(value.kind.value)
        else:
            exec(compile(ast.Module([statement], []), "page", "exec"), names)
    return told


def test_the_lines_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    tick = Harness()
    names: dict[str, Any] = {
        "client": tick.client,
        "announce": announce,
        "ring": ring,
        "timedelta": timedelta,
    }
    assert answers(block("# Calendars"), names) == ["SCHEDULED", "CONFLICT"]
    assert answers(block("as values"), names) == []
    # Weekly from the 7th on, so 40 past nine of that day is all that it meets.
    assert capsys.readouterr().out == "standup 2026-12-07T09:40:00 2026-12-07T09:45:00\n"
    assert answers(block("## Changes"), names) == ["REPLACED"] * 4 + ["CANCELLED"]
    assert answers(block("## Reminders"), names) == ["SCHEDULED"]
    assert tick.phase("{room-7}review~remind-600000") is not None
