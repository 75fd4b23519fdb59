"""Results as Markdown: `python -m bench.table FILE…`, each ending with the JSON object of a run.

Figures get into the documentation this way and no other; a quick run never does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_HIDDEN: Final = ("settings",)


def table(shown: Mapping[str, Any]) -> str:
    """One result as a heading line and a table. Raises ValueError for a quick run."""
    if shown["quick"]:
        raise ValueError(f"{shown['bench']}: a quick run is never quoted; run it without --quick")
    metrics, ratios = shown["metrics"], shown["ratio"]
    floor = {name: figure for name, figure in shown["floor"].items() if name not in _HIDDEN}
    rows = [(name, figure, floor.get(name)) for name, figure in metrics.items()]
    rows += [(name, None, figure) for name, figure in floor.items() if name not in metrics]
    lines = [
        f"`{shown['bench']}`: {_circumstances(shown)}",
        "",
        "| figure | measured | floor |",
        "|---|---:|---:|",
    ]
    lines += [f"| {name} | {_number(measured)} | {_number(raw)} |" for name, measured, raw in rows]
    lines += ["", "| ratio | |", "|---|---:|", *(f"| {name} | {ratio:g} |" for name, ratio in ratios.items())]
    if shown["floor_low"]:
        low = ", ".join(shown["floor_low"])
        lines += ["", f"Floors worse than half of what is expected, so that the ratios flatter: {low}."]
    return "\n".join(lines)


def _circumstances(shown: Mapping[str, Any]) -> str:
    env = shown["env"]
    return (
        f"{env['cpus']} cores ({env['cpu_model']}), kernel {env['kernel']}, Python {env['python']}, "
        f"librdkafka {env['librdkafka']}, Kafka {env['kafka']}, "
        f"load average before the run {env['load_average_before'][0]:g}"
    )


def _number(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 100 or figure == int(figure) else f"{figure:g}"


def main(files: Sequence[str]) -> None:
    """Print one table a file."""
    for file in files:
        last = Path(file).read_text().splitlines()[-1]
        print(table(json.loads(last)), end="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
