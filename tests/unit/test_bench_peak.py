"""The peak of a command's memory is the command's own, however much the process that asks has taken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARENTS_OWN = 300 * 1024 * 1024


def _measured(tmp_path: Path, program: str) -> tuple[int, dict[str, float]]:
    file = tmp_path / "took.json"
    command = [sys.executable, "-m", "bench.peak", str(file), sys.executable, "-c", program]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return code, json.loads(file.read_text())


def test_a_child_does_not_begin_with_the_peak_of_its_parent(tmp_path: Path) -> None:
    taken = bytearray(PARENTS_OWN)
    taken[::4_096] = bytes(len(taken[::4_096]))  # resident, every page
    code, took = _measured(tmp_path, "")
    assert code == 0
    assert 0 < took["rss_bytes"] < PARENTS_OWN / 2


def test_the_commands_own_peak_counts_and_its_exit_code_is_passed_on(tmp_path: Path) -> None:
    code, took = _measured(tmp_path, f"x = bytes(b'x' * {PARENTS_OWN}); raise SystemExit(3)")
    assert code == 3
    assert took["rss_bytes"] > PARENTS_OWN
