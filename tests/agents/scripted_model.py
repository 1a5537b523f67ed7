"""A model on loopback that plays a script instead of thinking: for real clients, without a key or a network.

    with ScriptedModel() as model:
        ... run a client against model.url ...
        model.fault = "429"         # from now on every request fails like that

Faults: ``401``, ``429``, ``500``, ``503``, ``529`` (error replies, for ever; ``429:7`` asks to retry after seven
seconds), ``cut`` (half an answer, then the connection closes),
``hang`` (silence until the server closes), ``die`` (the connection closes without an answer), ``malformed`` (an answer
that is no JSON), ``gzip`` (a good answer, compressed although nobody asked for it).
"""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evolution_script import Script, answer, evolve
from wire_formats import INPUT, Answer, Event, Format, Responses, format_of

ERRORS = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error", 503: "api_error",
          529: "overloaded_error"}  # fmt: skip


class ScriptedModel:
    """``seen`` has one row for each request for an answer: format, model, key, tools, what it asked, what we said."""

    def __init__(self, script: Script = evolve, fault: str | None = None) -> None:
        self.script, self.fault = script, fault
        self.seen: list[dict[str, Any]] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    model: ScriptedModel

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is not news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and a body are two writes, and the second would wait 40 ms
    server: _Server

    def do_GET(self) -> None:
        names = ["scripted", "claude-scripted", "gpt-scripted"]
        self._reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    def do_HEAD(self) -> None:
        self._reply(200, {})

    def do_POST(self) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        if path.endswith(("count_tokens", ":countTokens")):
            return self._reply(200, {"input_tokens": INPUT, "totalTokens": INPUT})
        wire = format_of(path)
        if wire is None:
            return self._reply(404, {"error": {"type": "not_found", "message": f"no such endpoint: {path}"}})
        return self._answer(wire, body)

    def log_message(self, format: str, *args: Any) -> None:
        """``seen`` says more."""

    def _answer(self, wire: Format, body: Any) -> None:
        model, history, tools = self.server.model, list(wire.history(body)), wire.tools(body)
        scripted = answer(model.script, history, tools, body)
        words = scripted.text or str(scripted.arguments)
        model.seen.append({"format": type(wire).__name__, "path": self.path, "model": body.get("model"),
                           "key": self._key(), "tools": sorted(tools), "asked": json.dumps(body),
                           "said": words})  # fmt: skip
        if model.fault == "hang":
            model.closing.wait()
        elif model.fault == "die":
            self.close_connection = True
        elif model.fault == "malformed":
            self._reply_data(200, b"<html>a page of some proxy</html>")
        elif model.fault and model.fault[0].isdigit():
            self._fail(*map(int, model.fault.split(":")))
        else:
            self._send(wire, body, scripted, cut=model.fault == "cut")

    def _send(self, wire: Format, body: Any, scripted: Answer, cut: bool) -> None:
        name = str(body.get("model") or "scripted")
        if not body.get("stream") and "stream" not in self.path:
            return self._reply(200, wire.plain(name, scripted), cut)
        events = list(wire.streamed(name, scripted))
        return self._stream(events[: len(events) // 2] if cut else events, isinstance(wire, Responses), cut)

    def _stream(self, events: list[Event], numbered: bool, cut: bool) -> None:
        compressor = zlib.compressobj(wbits=31) if self.server.model.fault == "gzip" else None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if compressor:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        for number, (kind, data) in enumerate(events):
            text = (
                data if isinstance(data, str) else json.dumps(data | ({"sequence_number": number} if numbered else {}))
            )
            chunk = f"{f'event: {kind}' + chr(10) if kind else ''}data: {text}\n\n".encode()
            if compressor:
                chunk = compressor.compress(chunk) + compressor.flush(zlib.Z_SYNC_FLUSH)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _fail(self, status: int, retry_after_s: int | None = None) -> None:
        error = {"type": ERRORS[status], "message": "a scripted failure", "code": status}
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self._reply(status, {"type": "error", "error": error}, headers=headers)

    def _reply(self, status: int, value: Any, cut: bool = False, headers: Mapping[str, str] | None = None) -> None:
        self._reply_data(status, json.dumps(value).encode(), cut, headers)

    def _reply_data(
        self, status: int, data: bytes, cut: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        is_compressed = self.server.model.fault == "gzip"
        data = gzip.compress(data) if is_compressed else data
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if is_compressed:
            self.send_header("Content-Encoding", "gzip")
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    def _key(self) -> str:
        names = ("Authorization", "x-api-key", "x-goog-api-key")
        return next((value.removeprefix("Bearer ") for name in names if (value := self.headers.get(name))), "")

    def _body(self) -> Any:
        raw = self._chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self._sized()
        return json.loads(gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw or b"{}")

    def _sized(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)
