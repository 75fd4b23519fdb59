"""The compose file against what it starts: no engine runs it here, so at least its words must be right."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tickstream.broker.jars import KAFKA_VERSION

COMPOSE = (Path(__file__).parents[2] / "docker-compose.yml").read_text()
COMMANDS = sorted({tuple(json.loads(command)) for command in re.findall(r"command: (\[.*\])", COMPOSE)})


def test_it_runs_the_kafka_that_the_tests_run() -> None:
    assert set(re.findall(r"image: apache/kafka:(\S+)", COMPOSE)) == {KAFKA_VERSION}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_its_commands_have_the_options_that_it_gives(command: tuple[str, ...]) -> None:
    noun, verb, *rest = command
    page = subprocess.run(
        [Path(sys.executable).parent / "tickstream", noun, verb, "--help"],
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    offered = set(re.findall(r"--[a-z-]+", page))
    assert {word for word in rest if word.startswith("--")} <= offered


def test_it_is_seen_from_this_machine_only() -> None:
    published = re.findall(r"ports: \[\"(.*)\"\]", COMPOSE)
    assert published == ["127.0.0.1:8080:8080"]
