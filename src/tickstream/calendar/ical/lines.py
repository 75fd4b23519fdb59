"""An iCalendar file as nested components of content lines (RFC 5545, 3.1), each with the number of its first line.

Unfolds, decodes and nests, and says where something is broken. What the lines mean may not enter here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from icalendar.parser import Contentline

_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_END_OF_LINE: Final = re.compile(rb"\r\n|\n|\r")


class Property(NamedTuple):
    """One content line, unfolded and unescaped."""

    line: int
    name: str
    parameters: Mapping[str, str]
    value: str


class Problem(NamedTuple):
    """What could not be read, and where."""

    line: int
    reason: str
    name: str = ""
    """Of the property, as far as it can be told."""


@dataclass(slots=True)
class Component:
    """What stands between BEGIN and END."""

    name: str
    line: int
    properties: list[Property] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Lines directly in it that cannot be read."""
    raw: list[str] = field(default_factory=list)
    """All its lines, unfolded, those of its components too."""

    def all(self, name: str) -> Iterator[Property]:
        """Every property of that name."""
        return (found for found in self.properties if found.name == name)

    def first(self, name: str) -> Property | None:
        """The first property of that name."""
        return next(self.all(name), None)

    def every(self, name: str) -> Iterator[Component]:
        """Every component of that name, at any depth."""
        for component in self.components:
            if component.name == name:
                yield component
            yield from component.every(name)


def read_components(data: bytes) -> Component:
    """The file as one nameless component. What is broken stands in `problems`, nothing is raised."""
    root = Component("", 1)
    stack = [root]
    for number, text in _unfolded(data, root):
        prop = _property(number, text, stack[-1])
        if prop is None:
            continue
        if prop.name == "BEGIN":
            opened = Component(prop.value.strip().upper(), number)
            stack[-1].components.append(opened)
            stack.append(opened)
        for component in stack[1:]:
            component.raw.append(text)
        if prop.name == "END":
            _end(stack, prop)
        elif prop.name != "BEGIN":
            stack[-1].properties.append(prop)
    for left in stack[1:]:
        left.problems.append(Problem(left.line, f"BEGIN:{left.name} has no END"))
    return root


def _end(stack: list[Component], prop: Property) -> None:
    name = prop.value.strip().upper()
    if name not in [component.name for component in stack[1:]]:
        # A name written wrong, most likely: it ends what is open.
        stack[-1].problems.append(Problem(prop.line, f"END:{name} has no BEGIN", "X-END"))
        del stack[max(len(stack) - 1, 1) :]
        return
    while (ended := stack.pop()).name != name:
        ended.problems.append(Problem(ended.line, f"BEGIN:{ended.name} has no END before END:{name}"))


def _property(number: int, text: str, component: Component) -> Property | None:
    try:
        name, parameters, value = Contentline(text).parts()
    except (ValueError, AssertionError) as error:
        begins = _NAME.match(text)
        reason = f"is no content line (RFC 5545, 3.1): {error}"
        component.problems.append(Problem(number, reason, "" if begins is None else begins[0].upper()))
        return None
    single = {
        key.upper(): given if isinstance(given, str) else ",".join(given) for key, given in parameters.items()
    }
    return Property(number, name.upper(), single, value)


def _unfolded(data: bytes, root: Component) -> Iterator[tuple[int, str]]:
    """Logical lines with their numbers. Folds may cut a character in two, so bytes are joined before they are decoded."""
    logical: list[tuple[int, bytes]] = []
    for number, line in enumerate(_END_OF_LINE.split(data.removeprefix(b"\xef\xbb\xbf")), start=1):
        if line[:1] in (b" ", b"\t") and logical:
            logical[-1] = (logical[-1][0], logical[-1][1] + line[1:])
        elif line.strip():
            logical.append((number, line))
    for number, line in logical:
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            root.problems.append(Problem(number, f"is not UTF-8 ({error.reason}); read as Latin-1"))
            yield number, line.decode("latin-1")
