"""A schedule file as plain values, with the line on which each schedule stands. TOML or YAML, by its name.

What the values mean is entries.py's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tickstream.errors import InvalidInput

SUFFIXES: Final = (".toml", ".yaml", ".yml")
_SHAPE: Final = 'a schedule file has [schedules."TASK_ID"] for each task, and may have app = "module:app"'


class Document(NamedTuple):
    """What a file says."""

    name: str
    app: str
    """`module:app` whose handlers are meant; empty: not said."""
    schedules: dict[str, dict[str, Any]]
    """By task id."""
    lines: dict[str, int]
    """Task id → the line on which it begins, from 1; without those that could not be found."""

    def place(self, task_id: str) -> str:
        """`schedules.toml:17`."""
        line = self.lines.get(task_id)
        return self.name if line is None else f"{self.name}:{line}"


def read_document(path: Path) -> Document:
    """Raises InvalidInput, which names file and line: no such file, no such format, twice the same id."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: it cannot be read: {error}") from error
    return document_of(text, str(path), yaml_form=path.suffix != ".toml")


def document_of(text: str, name: str, *, yaml_form: bool) -> Document:
    """What a file of that name says. Raises InvalidInput."""
    value, lines = _from_yaml(text, name) if yaml_form else _from_toml(text, name)
    if not isinstance(value, dict):
        raise InvalidInput(f"{name}: {_SHAPE}; this is a {type(value).__name__}")
    unknown = sorted(map(str, value.keys() - {"app", "schedules"}))
    if unknown:
        raise InvalidInput(f"{name}: unknown key {unknown[0]!r}: {_SHAPE}")
    app, schedules = value.get("app", ""), value.get("schedules")
    if not isinstance(app, str):
        raise InvalidInput(f'{name}: app is {app!r}; write app = "module:app"')
    if not isinstance(schedules, dict):
        raise InvalidInput(f"{name}: there are no schedules: {_SHAPE}")
    for task_id, entry in schedules.items():
        if not isinstance(task_id, str) or not isinstance(entry, dict):
            raise InvalidInput(
                f"{name}: schedules.{task_id} is {entry!r}; an id is text, and has keys such as handler and cron"
            )
    return Document(name, app, schedules, lines)


def _from_toml(text: str, name: str) -> tuple[Any, dict[str, int]]:
    try:
        return tomllib.loads(text), dict(_headers(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name}: {error}") from error


def _headers(text: str) -> Iterator[tuple[str, int]]:
    """The ids in `[schedules."…"]`, and their lines: tomllib keeps no places."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("["):
            try:
                value = tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                continue  # a line of an array or of a longer text
            for task_id in value.get("schedules", ()):
                yield task_id, number


def _from_yaml(text: str, name: str) -> tuple[Any, dict[str, int]]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _refuse_twice(root, name, set())
        return yaml.safe_load(text), _yaml_lines(root)
    except yaml.YAMLError as error:
        # Its text names line and column, in several lines.
        raise InvalidInput(f"{name}: {' '.join(str(error).split())}") from error


def _refuse_twice(node: yaml.Node, name: str, seen: set[int]) -> None:
    """The last of two equal keys would win, silently. Raises InvalidInput."""
    if id(node) in seen:
        return  # an alias of what was looked at
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_twice(child, name, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[object, int] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    raise InvalidInput(
                        f"{name}:{line}: {key.value!r} stands on line {lines[key.value]} already; take one of them out"
                    )
                lines[key.value] = line
            _refuse_twice(child, name, seen)


def _yaml_lines(root: yaml.Node | None) -> dict[str, int]:
    if not isinstance(root, yaml.MappingNode):
        return {}
    return {
        key.value: key.start_mark.line + 1
        for top, schedules in root.value
        if top.value == "schedules" and isinstance(schedules, yaml.MappingNode)
        for key, _ in schedules.value
        if isinstance(key, yaml.ScalarNode)
    }
