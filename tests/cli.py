"""The command line, run inside the test's process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tickstream.cli.main import main


class Ran(NamedTuple):
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found


class Cli:
    """Runs `tickstream ARGUMENT… OPTION…`; the options are the same for every call."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *options: str) -> None:
        self.capsys = capsys
        self._options = options

    def __call__(self, *arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *self._options])
        out, err = self.capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err)
