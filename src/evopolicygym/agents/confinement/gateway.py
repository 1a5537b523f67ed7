"""The judge's end of an agent's network: carries bytes between the cell and what the cell may reach.

The listeners live in the agent's network namespace and are held here, so there is nothing in the cell to attack or to
kill. One thread with an event loop serves all connections; memory is bounded by their number.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from evopolicygym.agents.confinement.proxy import AllowList, Destination, Refused

CHUNK: Final = 1 << 16
CONNECTIONS: Final = 256
HEAD_BYTES: Final = 1 << 14
HEAD_S: Final = 30.0
CONNECT_S: Final = 30.0
KINDS: Final = 512  # of traffic that are told apart

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Traffic:
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
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-gateway", daemon=True)
        self._thread.start()
        self._ready.wait()

    def traffic(self) -> tuple[Traffic, ...]:
        """What the proxy decided, so far."""
        kept = sorted((key, tuple(counts)) for key, counts in list(self._traffic.items()))
        return tuple(Traffic(*key, *counts) for key, counts in kept)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._loop.run_until_complete(self._open())
        self._ready.set()
        self._loop.run_forever()
        self._wind_up()

    async def _open(self) -> None:
        for port, listener in self._relays.items():
            await asyncio.start_server(self._relay(port), sock=listener, limit=CHUNK)
        if self._proxy is not None:
            await asyncio.start_server(self._serve, sock=self._proxy, limit=CHUNK)

    def _wind_up(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for listener in (*self._relays.values(), *([self._proxy] if self._proxy else [])):
            with suppress(OSError, ValueError):
                self._loop.remove_reader(listener)
            listener.close()
        self._loop.close()

    def _relay(self, port: int) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async with self._free:
                with suppress(OSError):
                    await self._join(reader, writer, ["127.0.0.1"], port, [0, 0, 0])
                await _close(writer)

        return serve

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client of the proxy."""
        async with self._free:
            try:
                await self._tunnel(reader, writer)
            except Refused as refusal:
                if refusal.destination:
                    self._count(refusal.destination, False)
                writer.write(refusal.answer())
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                problem = str(error) or type(error).__name__
                writer.write(Refused("502 Bad Gateway", f"the host cannot be reached: {problem}").answer())
            await _close(writer)

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
        writer.write(greeting)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(reader, far_writer, counts, 1))
                both.create_task(_carry(far_reader, writer, counts, 2))
        except* OSError:
            pass  # one side is gone: so is the connection
        finally:
            await _close(far_writer)

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


async def _close(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()
