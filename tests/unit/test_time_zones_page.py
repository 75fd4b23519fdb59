"""docs/time-zones.md: every command on the page is run, and answers what the page says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli import Cli

PAGE = Path(__file__).parents[2] / "docs" / "time-zones.md"
PROMPT = "$ tickstream "


def examples() -> list[tuple[str, list[str]]]:
    """The commands in the console blocks, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in PAGE.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        elif inside:
            found[-1][1].append(line)
    return found


@pytest.mark.parametrize(("command", "answer"), examples())
def test_the_page_says_what_the_command_answers(
    command: str, answer: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Cli(capsys)(*shlex.split(command))
    assert (ran.out + ran.err).splitlines() == answer


def test_the_page_has_an_example_for_every_section_about_time() -> None:
    assert len(examples()) >= 25
