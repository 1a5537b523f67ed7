"""Connections of an agent's client to the gateway: a bounded number, and answers that are written to one."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.gateway.exchange import UpstreamAnswer

if TYPE_CHECKING:
    from aiohttp import web

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CONNECTIONS: Final = 256  # at a time, of one gateway; more wait to be accepted
DESCRIPTOR_SHARE: Final = 4  # one in so many of the process's descriptors: each call needs another one for its server
CLOSE_S: Final = 5.0
PAUSE_S: Final = 0.1
FIRST_CALL_S: Final = 10.0  # from the beginning of a connection to the head of its first call


def most_connections() -> int:
    """Return how many clients a gateway serves at a time: fewer where the process may open few files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, soft // DESCRIPTOR_SHARE))


class Acceptor:
    """Accepts a bounded number of connections at a time, and closes those that make no call: they would keep others
    out."""

    def __init__(self, handle: Handler, listener: socket.socket, limit: int, **options: Any) -> None:
        from aiohttp import web

        self._handle, self._listener, self._limit = handle, listener, limit
        self._server = web.Server(self._serve, **options)
        self._unused: set[asyncio.BaseProtocol] = set()

    async def accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            while len(self._server.connections) >= self._limit:
                await asyncio.sleep(PAUSE_S)
            try:
                connection, _ = await loop.sock_accept(self._listener)
                await loop.connect_accepted_socket(self._accepted, connection)
            except OSError:  # no descriptor is free, or the client is gone again
                await asyncio.sleep(PAUSE_S)

    def _accepted(self) -> web.RequestHandler:
        protocol = self._server()
        self._unused.add(protocol)
        asyncio.get_running_loop().call_later(FIRST_CALL_S, self._close_unused, protocol)
        return protocol

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self._unused.discard(request.protocol)
        return await self._handle(request)

    def _close_unused(self, protocol: web.RequestHandler) -> None:
        if protocol in self._unused:
            self._unused.discard(protocol)
            protocol.force_close()

    async def close(self) -> None:
        self._server.pre_shutdown()
        await self._server.shutdown(CLOSE_S)


class AnsweredClient:
    """The client that gets an answer. Nothing is written when it ``is_gone``."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None
        self.is_gone = False

    @property
    def has_head(self) -> bool:
        """Whether the answer has begun."""
        return self._response is not None

    async def begin(self, answer: UpstreamAnswer) -> web.StreamResponse:
        from aiohttp import web

        self._response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        with self._may_go():
            await self._response.prepare(self._request)
        return self._response

    async def write(self, data: bytes) -> None:
        if data and not self.is_gone and self._response and self._request.method != "HEAD":
            with self._may_go():
                await self._response.write(data)

    async def end(self) -> None:
        if self._response and not self.is_gone:
            with self._may_go():
                await self._response.write_eof()

    def cut(self) -> None:
        """Close the connection after what is still to be sent: the client sees the cut as well."""
        if self._request.transport is not None:
            self._request.transport.close()

    @contextmanager
    def _may_go(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.is_gone = True
