"""The audit's fold and checks import only codec, model and topics: the contract that says so names all others."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tickstream"
SHELL = {"__init__", "reader", "scratch"}
"""Modules of the audit that may do I/O."""
ALLOWED = {"tickstream.codec", "tickstream.model", "tickstream.topics"}


def modules(directory: Path, name: str) -> set[str]:
    """The modules and packages right inside a package."""
    inside = {path.stem for path in directory.glob("*.py")} | {
        path.parent.name for path in directory.glob("*/*.py")
    }
    return {f"{name}.{module}" for module in inside - {"__init__"}}


def contracts() -> dict[str, dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["name"]: contract for contract in config["tool"]["importlinter"]["contracts"]}


def test_every_other_module_is_forbidden_to_the_fold_and_the_checks() -> None:
    whole = contracts()["The audit knows the promises, not the implementation"]
    pure = contracts()["The audit's fold and checks import only codec, model and topics"]
    forbidden = {*whole["forbidden_modules"], *pure["forbidden_modules"]}
    others = modules(PACKAGE, "tickstream") | modules(PACKAGE / "ops", "tickstream.ops")
    assert others - ALLOWED - {"tickstream.ops", "tickstream.ops.audit"} - forbidden == set()


def test_every_module_but_the_reader_is_pure() -> None:
    pure = contracts()["The audit's fold and checks import only codec, model and topics"]
    own = {f"tickstream.ops.audit.{path.stem}" for path in (PACKAGE / "ops" / "audit").glob("*.py")}
    shell = {f"tickstream.ops.audit.{name}" for name in SHELL}
    assert set(pure["source_modules"]) == own - shell
