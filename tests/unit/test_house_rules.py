"""The architecture and the house rules as tests: what a reviewer would otherwise have to watch for."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

LONGEST_FILE = 400
"""Lines; a file that grows past this is asking to be two."""

# The brackets keep the patterns from matching themselves.
POSTPONED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(work|farm|root)/")
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|maven\.org|repo\.maven\.apache\.org|npmjs\.(org|com)|crates\.io"
    r"|deb\.debian\.org|proxy\.golang\.org|\b(ghcr|quay|docker)\.io\b"
)
LOCK_FILES = {
    "Pipfile.lock",
    "package-lock.json",
    "pdm.lock",
    "poetry.lock",
    "pylock.toml",
    "uv.lock",
    "yarn.lock",
}


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Every file that git knows of and that is still there."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are the project's is not known")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_modules_import_only_what_their_layer_allows() -> None:
    # A process of its own: import-linter silences every logger of the process that it runs in.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_source_files_stay_readable_in_one_sitting() -> None:
    shipped = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".js", ".css", ".html"}]
    lengths = {_name(path): len(path.read_text().splitlines()) for path in shipped}
    assert {name: lines for name, lines in lengths.items() if lines >= LONGEST_FILE} == {}


def test_no_module_is_a_grab_bag() -> None:
    grab_bags = {"util", "utils", "helpers", "misc", "common"}
    assert [_name(path) for path in SOURCES if grab_bags & {*path.parent.parts, path.stem}] == []


def test_no_error_is_swallowed() -> None:
    swallowing = [
        f"{_name(path)}:{handler.lineno}"
        for path in SOURCES
        for handler in _handlers(path)
        if _swallows(handler)
    ]
    assert swallowing == []


def test_nothing_is_postponed_in_a_comment(tracked: list[Path]) -> None:
    assert list(_matches(POSTPONED, tracked)) == []


def test_no_path_of_one_machine(tracked: list[Path]) -> None:
    assert list(_matches(MACHINE_PATH, tracked)) == []


def test_no_address_of_a_package_registry(tracked: list[Path]) -> None:
    assert list(_matches(REGISTRY_HOST, tracked)) == []


def test_versions_are_pinned_by_name_only(tracked: list[Path]) -> None:
    assert [_name(path) for path in tracked if path.name in LOCK_FILES] == []
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==[^\s;@]+(; .+)?", pin)] == []


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _matches(pattern: re.Pattern[str], paths: list[Path]) -> Iterator[str]:
    for path in paths:
        # Undecodable bytes (golden messages, pictures) hold no text to find.
        lines = path.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            if pattern.search(line):
                yield f"{_name(path)}:{number}: {line.strip()[:100]}"


def _handlers(path: Path) -> Iterator[ast.ExceptHandler]:
    tree = ast.parse(path.read_text(), filename=str(path))
    return (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Bare, or so broad that it catches any fault and then does nothing about it."""
    if handler.type is None:
        return True
    broad = isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    return broad and all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body)
