"""The application that `tickstream demo` runs: one handler that does a little real work."""

import hashlib

from tickstream.worker import App, Context

app = App()

ROUNDS = 200
"""Of PBKDF2-HMAC-SHA256: some 0.1 ms of one core. A thousand tasks fall due at one instant; with more, the
lateness that the demo shows would be that of this handler on the cores of this machine."""


@app.handler(raw=True)
def demo(ctx: Context, payload: bytes) -> None:
    """Derive a key from the payload, salted with what stays the same over all attempts."""
    hashlib.pbkdf2_hmac("sha256", payload, ctx.idempotency_key.encode(), ROUNDS)
