"""The HTTP server: listens on loopback, keeps its address over a restart, and bounds the number of connections.

An agent can open any number of connections. They must not use up the descriptors that the judge needs to store
snapshots and write feedback: that would be a fault, and three faults end a run. They must not lock anyone out either: a
new connection replaces the one that has been idle longest."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import resource
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.files import read_file, write_json
from evopolicygym.run_paths import ADDRESS

ACCEPTED_AT_ONCE: Final = 32  # connections accepted before any of them can be closed
MOST_CONNECTIONS: Final = 256
FEWEST_CONNECTIONS: Final = 48  # more than the submit requests that may wait at a time
USUAL_OPEN_FILES: Final = 1024  # the usual limit of a process; the current one may be lower
# Descriptors beyond those open at the start: twice ACCEPTED_AT_ONCE, because some connections are just accepted and
# some just closed; four for each of the 96 connections of an agent's proxy, of which the gateway has two; and the
# judge's own, where a snapshot needs one for each of 16 levels of folders and a delivery half a dozen.
RESERVED_FILES: Final = 2 * ACCEPTED_AT_ONCE + 4 * 96 + 64
TOKEN_BYTES: Final = 24
TOKEN: Final = re.compile(r"[\w-]{32}", re.ASCII)
MAX_ADDRESS_BYTES: Final = 4096
SHUTDOWN_S: Final = 5
WAITING_CONNECTIONS: Final = 128  # in the kernel, where they use no descriptor of this process
_clock = itertools.count()


def protocol() -> type[H11Protocol]:
    """Return the protocol class for a server that starts now, and raise a low limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _limit_number(soft) < USUAL_OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL_OPEN_FILES, _limit_number(hard)), hard))
    return type("Connection", (_Connection,), {"open_at_start": len(os.listdir("/proc/self/fd"))})


def max_connections(open_at_start: int) -> int:
    """Return how many connections may be open. Computed for each connection, because the limit can change."""
    limit = _limit_number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, limit - open_at_start - RESERVED_FILES))


def _limit_number(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class _Connection(H11Protocol):
    open_at_start = 0
    _since = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = next(_clock)
        for _ in range(len(self.connections) - max_connections(self.open_at_start)):
            self._longest_idle()._abort()

    def on_response_complete(self) -> None:
        self._since = next(_clock)
        super().on_response_complete()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # whatever state the client left the connection in
            self.transport.abort()

    def _longest_idle(self) -> _Connection:
        """Return the longest-idle connection without a pending response, else this one."""
        connections: Any = self.connections
        idle = (connection for connection in connections if not connection._awaits_response)
        return min(idle, key=lambda connection: connection._since, default=self)

    @property
    def _awaits_response(self) -> bool:
        """Whether a complete request has arrived and nothing of its response was sent."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_started

    def _abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


@dataclass(frozen=True)
class Address:
    """Port and token of the API. The token is a secret: it allows spending the budget."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.token}"


def bind(root: Path) -> tuple[socket.socket, Address]:
    """Listen on the port of the last time with the same token, or on a new port with a new token."""
    last = _last(root)
    listener = _listen(last.port)
    token = last.token or secrets.token_urlsafe(TOKEN_BYTES)
    address = Address(listener.getsockname()[1], token)
    write_json(root / ADDRESS, asdict(address))
    return listener, address


@asynccontextmanager
async def serve_requests(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Serve requests inside the ``async with``; requests under way are answered before it ends."""
    server = _Server(
        uvicorn.Config(
            app,
            http=protocol(),
            ws="none",
            lifespan="off",
            backlog=ACCEPTED_AT_ONCE,
            log_config=None,  # uvicorn's would close the judge's log, and reopening it may fail for want of descriptors
            log_level="error",  # its warnings are about malformed requests of agents
            access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
    )
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """A server that leaves signals to the command that runs it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(WAITING_CONNECTIONS)  # asyncio uses one number for both: accepted at once, and waiting

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _last(root: Path) -> Address:
    try:
        last = Address(**json.loads(read_file(root, ADDRESS, MAX_ADDRESS_BYTES)))
        is_sound = type(last.port) is int and 0 <= last.port < 1 << 16 and TOKEN.fullmatch(last.token)
    except (OSError, ValueError, TypeError, RecursionError):
        is_sound = None
    return last if is_sound else Address(0, "")


def _listen(port: int) -> socket.socket:
    try:
        return _listening(port)
    except OSError:
        return _listening(0)


def _listening(port: int) -> socket.socket:
    # IPPROTO_TCP by name: otherwise asyncio does not switch Nagle's delay off, and replies take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))  # another process may bind it as well, until one of both listens
        listener.listen(WAITING_CONNECTIONS)  # from here on connections are queued, not refused
    except OSError:
        listener.close()
        raise
    return listener
