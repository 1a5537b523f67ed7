"""The judge's end of an agent's network: relays the run's API to the agent, and serves its proxy.

The listeners belong to the agent's network namespace and are held here, so no process in the sandbox can be attacked or
killed to get at them. One thread with an event loop serves all connections and accepts a bounded number at a time, so
that an agent cannot use up the judge's memory or descriptors.
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

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, NetworkAccess
from evopolicygym.sandbox.agent.allow_list import AllowList, Destination, ProxyRefusal

CHUNK: Final = 1 << 16
CONNECTIONS: Final = 96  # 64 streams of a model, and the run's API
HEAD_BYTES: Final = 1 << 14
HEAD_S: Final = 30.0
CONNECT_S: Final = 30.0
CLOSE_S: Final = 10.0
PAUSE_S: Final = 0.1
MAX_DESTINATIONS: Final = 512  # counted one by one; the rest together
PROXY_PORT: Final = 3128

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@dataclass(frozen=True)
class ProxyTraffic:
    """Connections to one destination through the proxy: whether allowed, how many, bytes sent and received.
    ``problem``: why the last of them did not reach it, if so."""

    host: str
    port: int
    allowed: bool
    connections: int
    sent: int
    received: int
    problem: str = ""


class ProxyServer:
    """A thread that relays and proxies. ``relays``: listeners by loopback port of the judge's machine. ``proxy``: the
    listener for CONNECT requests."""

    def __init__(self, relays: Mapping[int, socket.socket], proxy: socket.socket | None, allowed: AllowList) -> None:
        self._relays, self._proxy, self._allowed = dict(relays), proxy, allowed
        self._traffic: dict[tuple[str, int, bool], list[int]] = {}
        self._problems: dict[tuple[str, int, bool], str] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-proxy", daemon=True)
        self._thread.start()
        self._ready.wait()

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        """Return what the proxy has allowed and refused until now."""
        rows = sorted(self._traffic.copy().items())
        return tuple(
            ProxyTraffic(*key, connections, sent, received, self._problems.get(key, ""))
            for key, (connections, sent, received) in rows
        )

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        room = asyncio.Semaphore(CONNECTIONS)
        for port, listener in self._relays.items():
            self._start(self._accept(listener, partial(self._relay, port), room))
        if self._proxy is not None:
            self._start(self._accept(self._proxy, self._serve_proxy, room))
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        self._shut_down()

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task and keep a reference to it, as the loop itself does not."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _shut_down(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # aborted connections are closed in the next round
        for listener in (*self._relays.values(), *([self._proxy] if self._proxy else [])):
            listener.close()
        self._loop.close()

    async def _accept(self, listener: socket.socket, handle: Handler, room: asyncio.Semaphore) -> None:
        listener.setblocking(False)
        while True:
            await room.acquire()
            serving = self._start(self._serve_next(listener, handle, accepted := asyncio.Event()))
            serving.add_done_callback(lambda _: room.release())
            await accepted.wait()

    async def _serve_next(self, listener: socket.socket, handle: Handler, accepted: asyncio.Event) -> None:
        try:
            connection, _ = await self._loop.sock_accept(listener)
        except OSError:  # no descriptor is free: try again later
            await asyncio.sleep(PAUSE_S)
            return
        finally:
            accepted.set()
        reader, writer = await asyncio.open_connection(sock=connection, limit=CHUNK)
        async with _closing(writer):
            await handle(reader, writer)

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await self._connect_both(reader, writer, await _connect(["127.0.0.1"], port), [0, 0, 0])

    async def _serve_proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to the proxy."""
        try:
            await self._tunnel(reader, writer)
        except ProxyRefusal as refusal:
            if refusal.destination:
                self._count(refusal.destination, False)
            writer.write(refusal.response())
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            problem = str(error) or type(error).__name__
            writer.write(ProxyRefusal("502 Bad Gateway", f"the host cannot be reached: {problem}").response())

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        wanted = self._allowed.requested(head[:HEAD_BYTES])
        try:
            addresses = self._allowed.permitted(wanted, await self._resolve(wanted))
            far = await _connect(addresses, wanted.port)
        except OSError as error:
            self._count(wanted, True)
            self._problems[self._key(wanted, True)] = str(error) or type(error).__name__
            raise
        self._problems.pop(self._key(wanted, True), None)
        await self._connect_both(reader, writer, far, self._count(wanted, True), b"HTTP/1.1 200 Connected\r\n\r\n")

    async def _resolve(self, wanted: Destination) -> list[str]:
        results = await self._loop.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in results]

    async def _connect_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        counts: list[int],
        greeting: bytes = b"",
    ) -> None:
        far_reader, far_writer = far
        async with _closing(far_writer):
            writer.write(greeting)
            try:
                async with asyncio.TaskGroup() as copies:
                    sending = copies.create_task(_copy(reader, far_writer, counts, 1))
                    await _copy(far_reader, writer, counts, 2)
                    sending.cancel()  # the server has closed: an agent that keeps its side open must not keep the place
            except* OSError:
                pass  # one side closed the connection

    def _count(self, destination: Destination, allowed: bool) -> list[int]:
        counts = self._traffic.setdefault(self._key(destination, allowed), [0, 0, 0])
        counts[0] += 1
        return counts

    def _key(self, destination: Destination, allowed: bool) -> tuple[str, int, bool]:
        key = (destination.host, destination.port, allowed)
        return key if key in self._traffic or len(self._traffic) < MAX_DESTINATIONS else ("(others)", 0, allowed)


async def _connect(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers. Not to the name: it could resolve to something else by now."""
    problem: Exception = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(address, port, limit=CHUNK)
        except OSError as error:
            problem = error
    raise problem


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: list[int], index: int) -> None:
    while data := await reader.read(CHUNK):
        counts[index] += len(data)
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Give what is still to be sent a moment, then abort the connection whatever the other side does."""
    try:
        yield
        async with asyncio.timeout(CLOSE_S):
            writer.close()
            await writer.wait_closed()
    except OSError:
        pass  # the connection is gone already, or is aborted now
    finally:
        writer.transport.abort()


class AgentNetwork:
    """Network access of an agent. At level A everything is relayed; at B the proxy listens on the host's loopback."""

    def __init__(self, sandbox: AgentSandbox, level: AgentLevel) -> None:
        self._allowed = AllowList(sandbox.hosts, sandbox.ports)
        self._server: ProxyServer | None = None
        self._own_network = level is AgentLevel.A and sandbox.network is not NetworkAccess.OPEN
        self._proxy: socket.socket | None = None
        proxied = level is not AgentLevel.NONE and sandbox.network is NetworkAccess.ALLOWED
        if proxied and not self._own_network:
            self._proxy = socket.create_server(("127.0.0.1", 0))
        port = self._proxy.getsockname()[1] if self._proxy else _free_port(sandbox.ports)
        self.proxy = f"http://127.0.0.1:{port}" if proxied else None
        self.reachable = (*sandbox.ports, *([port] if proxied else []))

    @property
    def relayed(self) -> tuple[int, ...]:
        return self.reachable if self._own_network else ()

    def open(self, listeners: list[socket.socket]) -> None:
        """Start serving. ``listeners`` are those of the agent's own network, in the order of ``relayed``."""
        relays = dict(zip(self.relayed, listeners, strict=True))
        if self._own_network and self.proxy:
            self._proxy = relays.pop(self.reachable[-1])
        if relays or self._proxy:
            self._server = ProxyServer(relays, self._proxy, self._allowed)

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        return self._server.traffic() if self._server else ()

    def close(self) -> None:
        if self._server:
            self._server.close()
        elif self._proxy:
            self._proxy.close()


def _free_port(taken: tuple[int, ...]) -> int:
    return next(port for port in range(PROXY_PORT, PROXY_PORT + len(taken) + 1) if port not in taken)
