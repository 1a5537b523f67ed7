"""A gateway in this process, calls of all four APIs to it, and a server that answers with raw bytes."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from evopolicygym.gateway.call_limits import CallLimits
from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.metering import ModelCall, ModelMeter
from evopolicygym.gateway.patience import Patience, SharedWaits
from evopolicygym.gateway.server import Gateway
from evopolicygym.gateway.upstream import ModelServer
from process_helpers import wait_until

KEY = "the-real-key-that-nobody-inside-may-see"
TALK = [{"role": "user", "content": "Say something."}]
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anthropic-messages": ("/v1/messages", "x-api-key", {"model": "claude-scripted", "messages": TALK}),
    "openai-responses": ("/v1/responses", "Authorization", {"model": "gpt-scripted", "input": TALK}),
    "openai-chat": ("/v1/chat/completions", "Authorization", {"model": "gpt-scripted", "messages": TALK}),
    "gemini": (
        "/v1beta/models/gemini-scripted:{}",
        "x-goog-api-key",
        {"contents": [{"parts": [{"text": "Say something."}]}]},
    ),
}


class Kept:
    """Keeps exchanges in memory."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.left_out: list[int] = []

    def append(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def leave_out(self, number: int, reason: str) -> None:
        self.left_out.append(number)


@contextmanager
def gateway(
    url: str,
    key: str | None = KEY,
    patience_s: float = 0.0,
    limits: CallLimits | None = None,
    group: SharedWaits | None = None,
    **more: Any,
) -> Iterator[Gateway]:
    meter = ModelMeter(limits or CallLimits(), {})
    opened = Gateway([ModelServer(url, key, **more)], meter, Patience(patience_s, group), Kept())
    try:
        yield opened
    finally:
        opened.close()


def exchanges(opened: Gateway, count: int = 1) -> list[Exchange]:
    """Return what was recorded, which happens after the client has its answer."""
    sink = opened._sink
    assert isinstance(sink, Kept)
    wait_until(lambda: len(sink.exchanges) >= count)
    return sink.exchanges


def calls(opened: Gateway, count: int) -> tuple[ModelCall, ...]:
    wait_until(lambda: len(opened.meter.turn(0).calls) >= count)
    return opened.meter.turn(0).calls


def call(opened: Gateway, api: str, stream: bool = False, token: str | None = None) -> tuple[int, bytes]:
    """Make a call as a client of the API does. Return status and body."""
    path, header, body = CALLS[api]
    path = path.format("streamGenerateContent?alt=sse" if stream else "generateContent")
    value = opened.token if token is None else token
    headers = {header: f"Bearer {value}" if header == "Authorization" else value, "Content-Type": "application/json"}
    if stream and api != "gemini":
        body = body | {"stream": True} | ({"stream_options": {"include_usage": True}} if api == "openai-chat" else {})
    response = ask(opened, "POST", path, json.dumps(body), headers)
    return response.status, response.read()


def ask(opened: Gateway, method: str, path: str, body: str | None = None, headers: Any = None) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", opened.ports[0], timeout=30)
    connection.request(method, path, body, headers or {"Authorization": f"Bearer {opened.token}"})
    return connection.getresponse()


class RawServer:
    """Answers each connection by what ``answer`` does with its socket, after the request is read."""

    def __init__(self, answer: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self._answer, self._tls = answer, tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []

    def __enter__(self) -> RawServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self._tls:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
        with suppress(OSError), connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 16)
            head, _, body = data.partition(b"\r\n\r\n")
            size = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
            )
            while len(body) < size:
                body += connection.recv(1 << 16)
            self.requests.append(data)
            self._answer(connection)
