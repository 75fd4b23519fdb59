"""docs/time-zones.md: every command on the page is run, and answers what the page says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.console_blocks import commands_of

PAGE = Path(__file__).parents[2] / "docs" / "time-zones.md"


@pytest.mark.parametrize(("command", "answer"), commands_of(PAGE))
def test_the_page_says_what_the_command_answers(
    command: str, answer: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Cli(capsys)(*shlex.split(command))
    assert (ran.out + ran.err).splitlines() == answer


def test_the_page_has_an_example_for_every_section_about_time() -> None:
    assert len(commands_of(PAGE)) >= 25
