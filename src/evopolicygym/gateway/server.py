"""The gateway's server: takes the calls of an agent's client on loopback, and carries them to the model's server.

One thread with an event loop. The client holds a throwaway token; the real key is added on the way out. The server is
fixed when the gateway starts: a client cannot choose it. Answers pass piece by piece as they arrive.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from evopolicygym.gateway import apis
from evopolicygym.gateway.apis import ErrorAnswer, UsageReader
from evopolicygym.gateway.bodies import MAX_DECODED, BodyDecoder, decoded
from evopolicygym.gateway.endpoints import find_endpoint
from evopolicygym.gateway.exchange import Exchange, ExchangeSink, GatewayRequest, ModelApi, Upstream, UpstreamAnswer
from evopolicygym.gateway.metering import ModelCall, ModelMeter
from evopolicygym.gateway.patience import Outage, Patience, PatientAnswer
from evopolicygym.gateway.upstream import HttpUpstream, ModelServer, passed_on, readable_encodings

if TYPE_CHECKING:
    from aiohttp import web

CONNECTIONS: Final = 256  # at a time; more wait to be accepted
CALLS: Final = 128  # under way at a time; more wait for their turn
HEAD_BYTES: Final = 1 << 15
MAX_BODY: Final = 64 << 20
KEEP_ALIVE_S: Final = 75.0
CLOSE_S: Final = 5.0
PAUSE_S: Final = 0.1
NOT_UNDERSTOOD: Final = (400, 422)  # by servers that do not know `stream_options`
REPLACED: Final = frozenset({"host", "content-length", "expect", "accept-encoding"})
log = logging.getLogger(__name__)

MakeUpstream = Callable[[ModelServer], Upstream]


def new_token() -> str:
    return f"sk-evopolicygym-{secrets.token_hex(24)}"


class Gateway:
    """Carries the calls of one run. ``urls`` has a base URL for each model server, in their order; ``token`` is what a
    client sends as its key.

    Args:
        servers: Where models are served. A server without a key is open to all that reach the port.
        meter: Counts calls and knows their limits.
        patience: Waits out the servers' passing errors.
        sink: Keeps whole calls and answers, in a thread of the gateway's.
        make_upstream: Makes what answers calls, in the gateway's event loop. By default the server itself.
        token: What clients send as their key (default: a new one).
    """

    def __init__(
        self,
        servers: Sequence[ModelServer],
        meter: ModelMeter,
        patience: Patience | None = None,
        sink: ExchangeSink | None = None,
        make_upstream: MakeUpstream | None = None,
        token: str = "",
    ) -> None:
        self.token = token or new_token()
        self.meter, self.patience = meter, patience or Patience()
        self._sink = sink
        self._recorder = ThreadPoolExecutor(1, "model-recorder")
        self._turn = 0
        self._number = meter.last_number
        self._bytes = 0
        self._make_upstream = make_upstream or _http_upstreams(servers)
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in servers]
        self.ports = [listener.getsockname()[1] for listener in self._listeners]
        self.urls = [f"http://127.0.0.1:{port}{server.path}" for port, server in zip(self.ports, servers, strict=True)]
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(list(servers), started), name="model-gateway", daemon=True
        )
        self._thread.start()
        started.result()

    @property
    def activity(self) -> int:
        """A number that grows while calls are answered or wait: a sign of life of a silent client."""
        return self._bytes + int(self.patience.waited_s)

    def begin_turn(self, number: int) -> None:
        self._turn = number

    def close(self) -> None:
        """End all calls, and wait until they are recorded. May be called twice."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # its loop has just been closed
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
        self._recorder.shutdown()

    def _run(self, servers: list[ModelServer], started: Future[None]) -> None:
        try:
            self._loop.run_until_complete(self._serve(servers, started))
        except Exception as error:
            log.exception("the model gateway has ended")
            if not started.done():
                started.set_exception(error)
        finally:
            for listener in self._listeners:
                listener.close()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self, servers: list[ModelServer], started: Future[None]) -> None:
        from aiohttp import web

        self._calls = asyncio.Semaphore(CALLS)
        upstreams = [self._make_upstream(server) for server in servers]
        routes = [_Route(server, upstream) for server, upstream in zip(servers, upstreams, strict=True)]
        acceptors = [
            _Acceptor(web.Server(
                partial(self._handle, route), handler_cancellation=True, access_log=None, auto_decompress=False,
                max_line_size=HEAD_BYTES, max_field_size=HEAD_BYTES, keepalive_timeout=KEEP_ALIVE_S,
            ), listener)
            for route, listener in zip(routes, self._listeners, strict=True)
        ]  # fmt: skip
        tasks = [asyncio.create_task(acceptor.accept()) for acceptor in acceptors]
        started.set_result(None)
        await self._end.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for acceptor in acceptors:
            await acceptor.close()
        for upstream in upstreams:
            await upstream.close()

    async def _handle(self, route: _Route, request: web.BaseRequest) -> web.StreamResponse:
        try:
            call = await self._read(route, request)
            async with self._calls:
                return await self._carry(route, request, call)
        except _Refused as refusal:
            return _error_response(refusal.answer)

    async def _read(self, route: _Route, request: web.BaseRequest) -> GatewayRequest:
        """Check a call and return it without its token."""
        raw, base = request.raw_path, route.server.path
        below = raw.removeprefix(base)
        is_below = raw.startswith(base) and (below.startswith("/") or (bool(base) and below[:1] in ("", "?")))
        endpoint = find_endpoint(request.method, below) if is_below else None
        api = endpoint.api if endpoint else None
        tokens, headers, target = apis.take_token(passed_on(_flat(request)), endpoint.target if endpoint else below)
        if route.server.key is not None and not any(hmac.compare_digest(token, self.token) for token in tokens):
            _refuse(api, 401, "the key of this call is not the one that this run's agent was given")
        if api is None:
            path = raw.partition("?")[0][:200]
            _refuse(api, 404, f"{request.method} {path}: the gateway carries calls for answers, embeddings, token "
                    "counts and lists of models")  # fmt: skip
        body = await _body(request, api)
        kept = {name: value for name, value in headers.items() if name not in REPLACED}
        kept["accept-encoding"] = readable_encodings(headers.get("accept-encoding", ""))
        return GatewayRequest(api, request.method, target, kept, body)

    async def _carry(self, route: _Route, request: web.BaseRequest, call: GatewayRequest) -> web.StreamResponse:
        is_admitted = call.method == "POST"
        if is_admitted and (limit := self.meter.admit()):
            reason = f"the run's limit of {limit} is used up"
            raise _Refused(apis.quota_error(call.api, reason))
        self._number += 1
        under_way = _CallUnderWay(self._number, self._turn, call, is_admitted)
        try:
            async with self.patience.place() as under_way.waited_s:
                return await self._answer(route, request, under_way)
        finally:
            self._keep(under_way)

    async def _answer(self, route: _Route, request: web.BaseRequest, call: _CallUnderWay) -> web.StreamResponse:
        as_made = call.request
        asking = apis.with_usage(as_made) if route.reports_usage else None
        try:
            patient = await self._send(route, call, asking or as_made)
            if asking and patient.answer.status in NOT_UNDERSTOOD:
                route.reports_usage, asking = False, None
                patient = await self._send(route, call, as_made)
        except Outage as outage:
            call.attempts, call.waited_s = call.attempts + outage.attempts, call.waited_s + outage.waited_s
            _refuse(call.request.api, 502, f"the model's server cannot be reached: {outage}")
        call.begin(patient.answer)
        return await self._pass_on(request, patient.answer, call, hides_usage=asking is not None)

    async def _send(self, route: _Route, call: _CallUnderWay, request: GatewayRequest) -> PatientAnswer:
        call.request = request
        patient = await self.patience.send(route.upstream, request)
        call.attempts, call.waited_s = call.attempts + patient.attempts, call.waited_s + patient.waited_s
        return patient

    async def _pass_on(
        self, request: web.BaseRequest, answer: UpstreamAnswer, call: _CallUnderWay, hides_usage: bool
    ) -> web.StreamResponse:
        from aiohttp import web

        remover = apis.UsageRemover() if hides_usage and call.is_stream else None
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        await response.prepare(request)
        try:
            async for data in answer.body:
                self._bytes += len(data)
                call.feed(data)
                if request.method != "HEAD" and (passed := remover.feed(data) if remover else data):
                    await response.write(passed)
            if remover and (rest := remover.rest()):
                await response.write(rest)
        except OSError as error:
            log.info("an answer of the model was cut: %s", error)
            if request.transport is not None:
                request.transport.close()  # after what is still to be sent; the client sees the cut as well
            return response
        call.is_complete = True
        self._count(call)  # before the client knows that this answer is over, and makes its next call
        await response.write_eof()
        return response

    def _count(self, call: _CallUnderWay) -> ModelCall:
        if call.counted is None:
            call.counted = self.meter.add(call.summary(), call.is_admitted)
        return call.counted

    def _keep(self, call: _CallUnderWay) -> None:
        """Count and record a call that has ended, however it did. What fails here must not fail the client."""
        try:
            usage = self._count(call).usage
            if self._sink is not None:
                self._recorder.submit(self._record, self._sink, replace(call.exchange(), usage=usage))
        except Exception:
            log.exception("a call to the model was not counted")

    def _record(self, sink: ExchangeSink, exchange: Exchange) -> None:
        try:
            sink.append(exchange)
        except Exception:
            log.exception("a call to the model was not recorded")


@dataclass
class _Route:
    """``reports_usage``: whether the server reports the usage of a streamed Chat Completions answer if it is asked to,
    as far as is known."""

    server: ModelServer
    upstream: Upstream
    reports_usage: bool = True


class _Refused(Exception):
    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def _refuse(api: ModelApi | None, status: int, text: str) -> NoReturn:
    raise _Refused(apis.error(api, status, f"EvoPolicyGym: {text}"))


@dataclass
class _CallUnderWay:
    """A call and what is known of its answer by now."""

    number: int
    turn: int
    request: GatewayRequest
    is_admitted: bool
    counted: ModelCall | None = None
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False
    attempts: int = 0
    waited_s: float = 0.0
    started_at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self._began, self._first_byte_s = time.monotonic(), 0.0
        self._reader: UsageReader | None = None
        self._decoder = BodyDecoder("")
        self._body = bytearray()

    def begin(self, answer: UpstreamAnswer) -> None:
        self.status, self.headers = answer.status, dict(answer.headers)
        self._reader = UsageReader(self.request.api, self.is_stream)
        self._decoder = BodyDecoder(self.headers.get("content-encoding", ""))

    @property
    def is_stream(self) -> bool:
        return "event-stream" in self.headers.get("content-type", "")

    def feed(self, data: bytes) -> None:
        if not self._first_byte_s:
            self._first_byte_s = self._seconds()
        for piece in self._decoder.decode(data):
            self._body += piece
            if self._reader:
                self._reader.feed(piece)

    def summary(self) -> ModelCall:
        if self._reader:
            self._reader.end()
        call = self.request
        model = self._reader.model if self._reader else None
        return ModelCall(
            self.number, self.turn, call.api, self.status, self.is_complete,
            model or apis.requested_model(call.api, call.target, self._request_body()),
            self._reader.usage if self._reader else None,
            round(self._first_byte_s, 4), round(self._seconds(), 4), self.attempts, round(self.waited_s, 4),
        )  # fmt: skip

    def exchange(self) -> Exchange:
        call = self.request
        return Exchange(
            self.number, self.turn, call.api, call.method, call.target, call.headers, self._request_body(),
            self.status, self.headers, bytes(self._body), self.is_complete and self._decoder.is_readable,
            self.started_at, self._first_byte_s, self._seconds(), self.attempts, self.waited_s,
            self._reader.model if self._reader else None,
        )  # fmt: skip

    def _request_body(self) -> bytes:
        return decoded(self.request.body, self.request.headers.get("content-encoding", ""))[:MAX_DECODED]

    def _seconds(self) -> float:
        return time.monotonic() - self._began


class _Acceptor:
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


def _http_upstreams(servers: Sequence[ModelServer]) -> MakeUpstream:
    """Read certificates now, in the caller's thread, so that a mistake is the caller's error."""
    contexts = {id(server): server.tls() for server in servers}
    return lambda server: HttpUpstream(server, contexts[id(server)])


def _flat(request: web.BaseRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(request: web.BaseRequest, api: ModelApi) -> bytes:
    body = bytearray()
    async for data in _pieces(request):
        body += data
        if len(body) > MAX_BODY:
            _refuse(api, 413, f"the call has more than {MAX_BODY >> 20} MiB")
    return bytes(body)


async def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    async for data in request.content.iter_any():
        yield data


def _error_response(answer: ErrorAnswer) -> web.Response:
    from aiohttp import web

    return web.Response(status=answer.status, body=answer.body, content_type="application/json")
