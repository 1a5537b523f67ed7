"""Connections of an agent's client to the gateway: a bounded number, and answers that are written to one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from evopolicygym.gateway.exchange import UpstreamAnswer

if TYPE_CHECKING:
    from aiohttp import web

CONNECTIONS: Final = 256  # at a time; more wait to be accepted
CLOSE_S: Final = 5.0
PAUSE_S: Final = 0.1


class Acceptor:
    """Accepts a bounded number of connections at a time."""

    def __init__(self, server: web.Server, listener: socket.socket) -> None:
        self._server, self._listener = server, listener

    async def accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            while len(self._server.connections) >= CONNECTIONS:
                await asyncio.sleep(PAUSE_S)
            try:
                connection, _ = await loop.sock_accept(self._listener)
                await loop.connect_accepted_socket(self._server, connection)
            except OSError:  # no descriptor is free, or the client is gone again
                await asyncio.sleep(PAUSE_S)

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
