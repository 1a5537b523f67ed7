"""Where the door listens: on loopback, at an address that survives a restart where it can."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.judge.place import write_json

NAME: Final = ".door.json"
TOKEN_BYTES: Final = 24
GRACE_S: Final = 5
BACKLOG: Final = 32
MAX_CONNECTIONS: Final = 256


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
async def open_door(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Requests are answered until left; those under way are answered first."""
    server = _Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            backlog=BACKLOG,  # also how many are accepted at once, before any of them can be turned away
            log_level="warning",
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


class _Protocol(H11Protocol):
    """Whoever opens connections without end must not use up the descriptors with which the judge writes feedback: that
    would be a fault, and faults are refunded."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()


class _Server(uvicorn.Server):
    """Signals belong to the command that serves, not to the HTTP server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _last(root: Path) -> Address:
    try:
        return Address(**json.loads((root / NAME).read_text()))
    except (OSError, ValueError, TypeError):
        return Address(0, "")


def _listen(port: int) -> socket.socket:
    # The protocol by name: asyncio sends without delay only where it sees that it is TCP, and else replies take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)  # from here on nobody is turned away, though answers may take a moment
    return listener
