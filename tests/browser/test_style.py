"""The page's colours by arithmetic: text on its ground has 4.5:1, marks 3:1 (WCAG 2.2, level AA)."""

import re

import pytest

from tickstream.projection.application import PAGE

TEXT = ("ink", "soft", "link", "good", "warn", "bad")
MARKS = (
    "scheduled",
    "dispatched",
    "running",
    "retrying",
    "succeeded",
    "dead",
    "cancelled",
    "late",
    "held",
    "paused",
    "faulted",
    "skipped",
)


def _schemes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", (PAGE / "style.css").read_text(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): #(\w+);", block)) for block in blocks)
    return {"light": light, "dark": dark}


def _luminance(colour: str) -> float:
    digits = "".join(2 * digit for digit in colour) if len(colour) == 3 else colour
    channels = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_apart(scheme: str) -> None:
    colours = _schemes()[scheme]
    wanted = [(name, ground, 4.5) for name in TEXT for ground in ("ground", "sheet")]
    wanted += [("bad", "bad-ground", 4.5)] + [(name, "sheet", 3.0) for name in MARKS]
    found = {f"{name} on {ground}": _contrast(colours[name], colours[ground]) for name, ground, _ in wanted}
    assert {
        pair: ratio for (pair, ratio), (*_, least) in zip(found.items(), wanted, strict=True) if ratio < least
    } == {}
