"""The one value that stands for no time at all."""

from __future__ import annotations

from typing import Final

NEVER: Final = -1
"""Stands for "no such time"."""
