"""Cursors: the last key of a page as text that goes into a query string unquoted.

No key is made or read here (keys.py).
"""

from __future__ import annotations

import base64


def encode_cursor(key: bytes | None) -> str | None:
    """A page's last key as text; None: there is no next page."""
    return None if key is None else base64.urlsafe_b64encode(key).decode().rstrip("=")


def decode_cursor(text: str) -> bytes:
    """The key that `encode_cursor` was given. Raises ValueError on what it never wrote."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
