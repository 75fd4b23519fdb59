"""The dashboard's process: the API on a socket, until it is told to stop.

No question about the index is answered here (api.py), and no signal is handled: the caller does.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import uvicorn

from tickstream.clock import Clock, SystemClock
from tickstream.errors import InvalidInput
from tickstream.projection.api import create_app
from tickstream.projection.front import Shards, create_front
from tickstream.projection.guard import LOOPBACK
from tickstream.projection.reader import IndexReader

_ANY: frozenset[str] = frozenset({"0.0.0.0", "::", ""})
_STOP_LOOK_S = 0.1
_DRAIN_S = 2
"""How long open answers (live streams above all) may hold up a stop."""


class _Server(uvicorn.Server):
    """Signals belong to the process, not to the server in it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def serve(
    *,
    data_dir: Path | None = None,
    shards: Sequence[str] = (),
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    hosts: Iterable[str] = (),
    clock: Clock | None = None,
    events: Callable[[Mapping[str, object]], None],
    stop: threading.Event,
) -> None:
    """Serve the index in `data_dir`, or the `shards` at these addresses, until `stop` is set.

    Shards are asked with the same `token`. `port` 0 takes a free one; the event `ready` names the
    address. `hosts`: further names under which the server may be called. Raises InvalidInput when
    the address cannot be had.
    """
    clock = clock or SystemClock()
    names = [*hosts, *([] if host in _ANY or host in LOOPBACK else [host])]
    with ExitStack() as owned:
        listener = owned.enter_context(_listen(host, port))
        asked: Shards | None = None
        if data_dir is not None:
            reader = owned.enter_context(IndexReader(data_dir))
            app = create_app(reader, clock=clock, hosts=names, token=token)
        else:
            asked = Shards(shards, token)
            app = create_front(asked, clock=clock, hosts=names, token=token)
        server = _Server(
            uvicorn.Config(
                app,
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_DRAIN_S,
            )
        )
        if token is None and host not in LOOPBACK:
            open_to = "whoever reaches this address sees every task: pass --token-file"
            events({"event": "warning", "at_ms": clock.wall_ms(), "reason": open_to})
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listener.getsockname()[1]}"

        async def run() -> None:
            serving = asyncio.ensure_future(server.serve(sockets=[listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            # What is loaded by now stays; without it a collection amid a page of a thousand rows
            # has little to look at (p99 of such a page: 18-21 ms before, 9-11 after).
            gc.freeze()
            if server.started:
                events({"event": "ready", "at_ms": clock.wall_ms(), "url": url})
            while not stop.is_set() and not serving.done():
                await asyncio.sleep(_STOP_LOOK_S)
            app.state.stopping.set()
            server.should_exit = True
            await serving
            if asked is not None:
                await asked.aclose()

        asyncio.run(run())


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host}:{port} ({error.strerror}); pass another --host or --port (0: any free one)"
        ) from error
    listener.listen(128)
    return listener
