"""The judge's end of an agent's network: carries bytes between the cell and what the cell may reach.

The listeners live in the agent's network namespace and are held here, so there is nothing in the cell to attack or to
kill. One thread with an event loop serves all connections, and accepts no more of them than it has room for: what an
agent can use up of the judge's memory and descriptors is bounded.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from evopolicygym.sandbox.agent.allow_list import AllowList, Destination, ProxyRefusal

CHUNK: Final = 1 << 16
CONNECTIONS: Final = 64
HEAD_BYTES: Final = 1 << 14
HEAD_S: Final = 30.0
CONNECT_S: Final = 30.0
CLOSE_S: Final = 10.0
PAUSE_S: Final = 0.1
KINDS: Final = 512  # of traffic that are told apart

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@dataclass(frozen=True)
class ProxyTraffic:
    """Connections to one destination through the proxy: how often, whether let through, bytes out and in."""

    host: str
    port: int
    allowed: bool
    connections: int
    sent: int
    received: int


class Gateway:
    """``relays``: listener by loopback port. ``proxy``: the listener that speaks CONNECT."""

    def __init__(self, relays: Mapping[int, socket.socket], proxy: socket.socket | None, allowed: AllowList) -> None:
        self._relays, self._proxy, self._allowed = dict(relays), proxy, allowed
        self._traffic: dict[tuple[str, int, bool], list[int]] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-gateway", daemon=True)
        self._thread.start()
        self._ready.wait()

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        """What the proxy decided, so far."""
        kept = sorted((key, tuple(counts)) for key, counts in list(self._traffic.items()))
        return tuple(ProxyTraffic(*key, *counts) for key, counts in kept)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        room = asyncio.Semaphore(CONNECTIONS)
        for port, listener in self._relays.items():
            self._begin(self._accept(listener, partial(self._relay, port), room))
        if self._proxy is not None:
            self._begin(self._accept(self._proxy, self._serve, room))
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        self._wind_up()

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """The loop itself does not hold on to its tasks."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _wind_up(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # what was aborted is closed in the next round
        for listener in (*self._relays.values(), *([self._proxy] if self._proxy else [])):
            listener.close()
        self._loop.close()

    async def _accept(self, listener: socket.socket, serve: Serve, room: asyncio.Semaphore) -> None:
        listener.setblocking(False)
        while True:
            await room.acquire()
            serving = self._begin(self._serve_next(listener, serve, accepted := asyncio.Event()))
            serving.add_done_callback(lambda _: room.release())
            await accepted.wait()

    async def _serve_next(self, listener: socket.socket, serve: Serve, accepted: asyncio.Event) -> None:
        try:
            connection, _ = await self._loop.sock_accept(listener)
        except OSError:  # no descriptor to spare: later, perhaps
            await asyncio.sleep(PAUSE_S)
            return
        finally:
            accepted.set()
        reader, writer = await asyncio.open_connection(sock=connection, limit=CHUNK)
        async with _ending(writer):
            await serve(reader, writer)

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await self._join(reader, writer, ["127.0.0.1"], port, [0, 0, 0])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client of the proxy."""
        try:
            await self._tunnel(reader, writer)
        except ProxyRefusal as refusal:
            if refusal.destination:
                self._count(refusal.destination, False)
            writer.write(refusal.answer())
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            problem = str(error) or type(error).__name__
            writer.write(ProxyRefusal("502 Bad Gateway", f"the host cannot be reached: {problem}").answer())

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        wanted = self._allowed.requested(head[:HEAD_BYTES])
        addresses = self._allowed.permitted(wanted, await self._resolve(wanted))
        counts = self._count(wanted, True)
        await self._join(reader, writer, addresses, wanted.port, counts, b"HTTP/1.1 200 Connected\r\n\r\n")

    async def _resolve(self, wanted: Destination) -> list[str]:
        found = await self._loop.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        addresses: list[str],
        port: int,
        counts: list[int],
        greeting: bytes = b"",
    ) -> None:
        far_reader, far_writer = await _connect(addresses, port)
        async with _ending(far_writer):
            writer.write(greeting)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_carry(reader, far_writer, counts, 1))
                    both.create_task(_carry(far_reader, writer, counts, 2))
            except* OSError:
                pass  # one side is gone: so is the connection

    def _count(self, destination: Destination, allowed: bool) -> list[int]:
        key = (destination.host, destination.port, allowed)
        if key not in self._traffic and len(self._traffic) >= KINDS:
            key = ("(others)", 0, allowed)
        counts = self._traffic.setdefault(key, [0, 0, 0])
        counts[0] += 1
        return counts


async def _connect(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the addresses that were judged, one after the other: a name could mean something else by now."""
    problem: Exception = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(address, port, limit=CHUNK)
        except OSError as error:
            problem = error
    raise problem


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: list[int], which: int) -> None:
    while data := await reader.read(CHUNK):
        counts[which] += len(data)
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@asynccontextmanager
async def _ending(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """What is still to be sent is given a moment; then the connection is gone, whatever the other side does."""
    try:
        yield
        async with asyncio.timeout(CLOSE_S):
            writer.close()
            await writer.wait_closed()
    except OSError:
        pass  # it was gone already, or will be now
    finally:
        writer.transport.abort()
