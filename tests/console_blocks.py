"""The commands that a page of the documentation shows."""

from __future__ import annotations

from pathlib import Path

PROMPT = "$ tickstream "


def commands_of(page: Path) -> list[tuple[str, list[str]]]:
    """The commands in the console blocks, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        elif inside:
            found[-1][1].append(line)
    return found
