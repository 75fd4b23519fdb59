"""docs/scheduling.md: its commands, run one after another, do what the page says."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.console_blocks import commands_of
from tests.kafka.rig import Rig

PAGE = Path(__file__).parents[2] / "docs" / "scheduling.md"


def test_the_page_s_commands_run(
    broker: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}")
    said: dict[str, list[str]] = {}
    with Rig(broker, prefix, tmp_path) as rig:
        rig.wait_active(rig.dispatcher("only"))
        for command, _ in commands_of(PAGE):
            ran = cli(*shlex.split(command))
            assert ran.code == 0, f"{command}: {ran.err}"
            said.setdefault(" ".join(command.split()[:2]), []).append(ran.out)
    dry, applied, pruned = said["schedule apply"]
    assert dry.endswith("4 added; nothing was sent\n")
    assert applied.endswith("4 added\n")
    # The code declares what the file does.
    assert '"sent": 0, "counts": {"unchanged": 4}' in pruned
    dry, ran, again = said["task backfill"]
    total = dry.splitlines()[-1].removesuffix("; nothing was sent")
    # Seven; where clocks changed meanwhile, one less or more.
    assert total in {f"{count} to be run" for count in (6, 7, 8)}
    assert ran.splitlines()[-1] == total
    assert list(json.loads(again)["counts"]) == ["in flight"]
