"""What makes two errors the same failure: their text without what differs from one run to the next.

Pure text; nothing of the index may enter here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST: Final = 200
"""Characters of a shape."""
_VARYING: Final = re.compile(
    r"0[xX][0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"
    r"|[0-9]+"
)


@lru_cache(4_096)
def shape(error: str) -> str:
    """The first line of an error, numbers, UUIDs and hexadecimal ids as `#`; of a shape, itself."""
    return _VARYING.sub("#", error.strip().partition("\n")[0])[:LONGEST].strip()
