"""Where the door listens: on loopback, at an address that survives a restart where it can."""

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

AT_ONCE: Final = 32  # are accepted, before any of them can be turned away
MOST: Final = 256
FEWEST: Final = 48  # more than the submissions that may be under way at a time
USUAL: Final = 1024  # what machines allow a process; somebody may have asked for less
# Beyond what is open when the door opens: twice as many as are accepted at once, for some are just accepted, some just
# closed; two for each of the 64 connections that the gateway of an agent carries; and the judge's own, where a snapshot
# has one open for each of 16 levels of folders, a delivery half a dozen.
RESERVE: Final = 2 * AT_ONCE + 2 * 64 + 64
_turns = itertools.count()


def protocol() -> type[H11Protocol]:
    """Of a door that opens now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _number(soft) < USUAL:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL, _number(hard)), hard))
    return type("Connection", (_Connection,), {"taken": len(os.listdir("/proc/self/fd"))})


def places(taken: int) -> int:
    """Asked anew for each connection: the limit can be changed while we run."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return max(FEWEST, min(MOST, limit - taken - RESERVE))


def _number(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class _Connection(H11Protocol):
    taken = 0
    _since = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = next(_turns)
        for _ in range(len(self.connections) - places(self.taken)):
            self._longest_idle()._leave()

    def on_response_complete(self) -> None:
        self._since = next(_turns)
        super().on_response_complete()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # in whatever state the client has left it
            self.transport.abort()

    def _longest_idle(self) -> _Connection:
        """Of those to whom we owe no answer; if there are none, we ourselves."""
        everybody: Any = self.connections
        return min((one for one in everybody if not one._is_owed), key=lambda one: one._since, default=self)

    @property
    def _is_owed(self) -> bool:
        """A whole request is here, and nothing of its answer has been sent."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_started

    def _leave(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


NAME: Final = ".door.json"
TOKEN_BYTES: Final = 24
TOKEN: Final = re.compile(r"[\w-]{32}", re.ASCII)
MAX_BYTES: Final = 4096
GRACE_S: Final = 5
QUEUE: Final = 128  # of connections that wait in the kernel, where they cost us nothing


@dataclass(frozen=True)
class Address:
    """The token is the key to the door: whoever knows it can spend the budget."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.token}"


def bind(root: Path) -> tuple[socket.socket, Address]:
    """The port and token of the last time, or new ones."""
    last = _last(root)
    listener = _listen(last.port)
    token = last.token or secrets.token_urlsafe(TOKEN_BYTES)
    address = Address(listener.getsockname()[1], token)
    write_json(root / NAME, asdict(address))
    return listener, address


@asynccontextmanager
async def serve_requests(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Requests are answered until left; those under way are answered first."""
    server = _Server(
        uvicorn.Config(
            app,
            http=protocol(),
            ws="none",
            lifespan="off",
            backlog=AT_ONCE,
            log_config=None,  # its own would close the judge's log, to be opened again when there may be no descriptor
            log_level="error",  # what it warns of is what agents send
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """Signals belong to the command that serves, not to the HTTP server."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(QUEUE)  # for asyncio, how many it accepts at once and how many may wait is one number

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _last(root: Path) -> Address:
    try:
        last = Address(**json.loads(read_file(root, NAME, MAX_BYTES)))
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
    # The protocol by name: asyncio sends without delay only where it sees that it is TCP, and else replies take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))  # somebody else may be bound to it as well, until one of us listens
        listener.listen(QUEUE)  # from here on nobody is turned away, though answers may take a moment
    except OSError:
        listener.close()
        raise
    return listener
