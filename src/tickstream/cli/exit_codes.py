"""What a command's exit code says. 0 is yes, or done."""

from typing import Final

NO: Final = 1
WRONG_USAGE: Final = 2
UNAVAILABLE: Final = 3
