"""The idempotency store in Redis: best effort, because an effect elsewhere commits apart from it.

Only redis-py may enter here, and only when a URL has to be opened.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from tickstream.errors import InvalidInput, MissingExtra, RunDisplaced
from tickstream.worker.idempotency.protocol import Begun, Busy, Done, Fence, Fresh

if TYPE_CHECKING:
    from redis import Redis

PREFIX: Final = "tickstream:once:"
BUSY_FOR: Final = timedelta(hours=1)
KEPT_FOR: Final = timedelta(days=7)

# A mark is a hash: run, work and claim (its fence), and once the effect was made, done (the result).
# Each script is one step in Redis: no other client gets in between.
_BEGIN: Final = """
local done = redis.call('HGET', KEYS[1], 'done')
if done then return {'done', done} end
local held = redis.call('HMGET', KEYS[1], 'run', 'work', 'claim')
if held[1] and held[1] ~= ARGV[1] then
    local work, claim = tonumber(held[2]), tonumber(held[3])
    local later = tonumber(ARGV[2]) > work or (tonumber(ARGV[2]) == work and tonumber(ARGV[3]) > claim)
    if not later then return {'busy', held[1]} end
end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'work', ARGV[2], 'claim', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'fresh', ''}
"""
_COMPLETE: Final = """
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'done', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
_ABANDON: Final = """
if redis.call('HGET', KEYS[1], 'run') == ARGV[1] and redis.call('HEXISTS', KEYS[1], 'done') == 0 then
    redis.call('DEL', KEYS[1])
end
"""


class RedisIdempotency:
    """Keys as marks in Redis. It narrows the window for a second effect, it does not close it.

    A run marks the key, makes its effect, and marks it done. One that dies in between leaves a mark
    that the next attempt takes over by its higher fence, and whether the effect was made nobody
    knows: it is made again. So is one whose mark a Redis without synchronous persistence forgot.
    """

    def __init__(
        self, client: Redis, *, busy_for: timedelta = BUSY_FOR, kept_for: timedelta = KEPT_FOR
    ) -> None:
        """`busy_for`: how long a mark without an end stands, at least the longest run; `kept_for`: one
        with an end, longer than attempts of its occurrence can come. Raises InvalidInput.
        """
        if min(busy_for, kept_for) < timedelta(milliseconds=1):
            raise InvalidInput("busy_for and kept_for: at least a millisecond")
        self._begin = client.register_script(_BEGIN)
        self._complete = client.register_script(_COMPLETE)
        self._abandon = client.register_script(_ABANDON)
        self._busy_ms = busy_for // timedelta(milliseconds=1)
        self._kept_ms = kept_for // timedelta(milliseconds=1)

    @classmethod
    def from_url(cls, url: str, **options: timedelta) -> Self:
        """Open `redis://…`. Raises MissingExtra without redis-py."""
        try:
            from redis import Redis
        except ImportError as error:
            raise MissingExtra("RedisIdempotency", "redis") from error
        return cls(Redis.from_url(url), **options)

    def scope(self) -> AbstractContextManager[object]:
        """Nothing to share: Redis and the effect commit apart."""
        return nullcontext()

    def begin(self, key: str, run_id: bytes, fence: Fence) -> Begun:
        """As IdempotencyStore."""
        state, value = (
            _bytes(part)
            for part in self._begin(keys=[PREFIX + key], args=[run_id.hex(), *fence, self._busy_ms])
        )
        if state == b"done":
            return Done(value)
        return Busy(bytes.fromhex(value.decode())) if state == b"busy" else Fresh()

    def complete(self, key: str, run_id: bytes, result: bytes) -> None:
        """As IdempotencyStore. Raises RunDisplaced, also when the mark is gone."""
        if not self._complete(keys=[PREFIX + key], args=[run_id.hex(), result, self._kept_ms]):
            raise RunDisplaced(key)

    def abandon(self, key: str, run_id: bytes) -> None:
        """As IdempotencyStore."""
        self._abandon(keys=[PREFIX + key], args=[run_id.hex()])


def _bytes(value: Any) -> bytes:
    """A reply as bytes, whether or not the client decodes responses."""
    return value if isinstance(value, bytes) else str(value).encode()
