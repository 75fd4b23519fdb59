"""What the demo shows while it runs: steps that stay, and below them one line that changes.

At a terminal the line is redrawn in place; elsewhere it is printed every few seconds.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tickstream.clock import Clock

_PLAIN_EVERY_S: Final = 5.0


class Display:
    """The demo's screen; use it in a `with`."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self.console = console
        self._clock = clock
        self._live = Live(console=console, transient=True) if console.is_terminal else None
        self._printed_at = float("-inf")

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, line: str) -> None:
        """The line that changes."""
        if self._live is not None:
            # Not before there is something to show: the download draws a line of its own.
            self._live.start()
            self._live.update(Text(line))
        elif self._clock.monotonic() - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = self._clock.monotonic()
            self.say(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
