"""The only way from a process in a network of its own to the broker: a TCP proxy that can be cut.

While it is cut no byte passes, connections stand, and new ones are taken and lead nowhere: what a
partitioned network looks like from within. Healed, what was under way arrives late.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import apart
from tickstream.errors import TickstreamError
from tickstream.ops.processes import ManagedProcess

_CHUNK = 65_536
_START_S = 20.0


class NoNetwork(TickstreamError):
    """This machine gives no process a network of its own, or the broker is on another one."""


class Link:
    """Forwards connections taken by `listener` to `target`, in a thread of its own."""

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        self._listener = listener
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._serve, name="link")
        self._thread.start()

    def cut(self) -> None:
        """Let nothing pass."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Let everything pass, what was under way first."""
        self._loop.call_soon_threadsafe(self._open.set)

    def close(self) -> None:
        """End all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, sock=self._listener))
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for pump in self._pumps:
                pump.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._pumps, return_exceptions=True))
            self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        for pump in (self._pump(reader, there_writer), self._pump(there_reader, writer)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            # Either end went away: so does the other.
            return
        finally:
            writer.close()


@contextmanager
def linked_process(
    command: Sequence[str], bootstrap: str, scratch: Path, name: str, *, cwd: Path | None = None
) -> Iterator[tuple[ManagedProcess, Link]]:
    """`command` in a network where `bootstrap` (127.0.0.1:port) is reached by the Link alone. Raises NoNetwork.

    `scratch`: a directory of its own; `cwd`: the command's.
    """
    host, _, port = bootstrap.partition(":")
    if host not in ("127.0.0.1", "localhost"):
        raise NoNetwork(
            f"the broker at {bootstrap} is not of this machine: its address cannot be stood in for"
        )
    holder = scratch / "link"
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.bind(str(holder))
        waiting.listen()
        waiting.settimeout(_START_S)
        argv = [sys.executable, apart.__file__, str(holder), port, *command]
        with ManagedProcess.start(argv, name=name, cwd=cwd) as process:
            link = Link(_listener(waiting, process), (host, int(port)))
            try:
                yield process, link
            finally:
                process.stop()
                link.close()


def _listener(waiting: socket.socket, process: ManagedProcess) -> socket.socket:
    """The socket that the process made in its network. Raises NoNetwork where it may not make one."""
    waiting.settimeout(0.1)
    for _ in range(int(_START_S / 0.1)):
        if process.returncode == apart.REFUSED:
            raise NoNetwork(f"this machine gives no process a network of its own: {process.output_tail()}")
        try:
            connection, _ = waiting.accept()
        except TimeoutError:
            continue
        with connection:
            _, (descriptor, *_), _, _ = socket.recv_fds(connection, 16, 1)
            return socket.socket(fileno=descriptor)
    raise NoNetwork(f"{process.name} made no network: {process.output_tail()}")
