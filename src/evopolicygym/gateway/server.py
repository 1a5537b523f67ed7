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
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from evopolicygym.agents.usage import Usage
from evopolicygym.gateway import apis
from evopolicygym.gateway.apis import ErrorAnswer
from evopolicygym.gateway.bodies import BodyShare, ByteBudget
from evopolicygym.gateway.call import CallUnderWay
from evopolicygym.gateway.call_limits import SuiteLimitReached
from evopolicygym.gateway.connections import Acceptor, AnsweredClient, most_connections
from evopolicygym.gateway.endpoints import find_endpoint
from evopolicygym.gateway.exchange import ExchangeSink, GatewayRequest, ModelApi, Upstream, UpstreamAnswer
from evopolicygym.gateway.metering import MAX_CALLS, ModelCall, ModelMeter
from evopolicygym.gateway.patience import Outage, Patience, PatientAnswer
from evopolicygym.gateway.stream_usage import UnclearCall, UsageQuestion, UsageRemover, ask_for_usage
from evopolicygym.gateway.upstream import HttpUpstream, ModelServer, passed_on

if TYPE_CHECKING:
    from aiohttp import web

CALLS: Final = 128  # under way at a time; more wait for their turn
HEAD_BYTES: Final = 1 << 15
MAX_BODY: Final = 64 << 20
MAX_BODIES: Final = 256 << 20  # bytes of all calls that are under way
BODY_SILENCE_S: Final = 60.0  # in the middle of a call's body
MAX_UNRECORDED: Final = 512 << 20  # bytes of ended calls that wait for the recorder
REST_S: Final = 120.0  # for the rest of an answer whose client has gone; its usage comes last
REST_BYTES: Final = 16 << 20
MODELS: Final = 1000
KEEP_ALIVE_S: Final = 75.0
NOT_UNDERSTOOD: Final = (400, 422)  # by servers that do not know `stream_options`
REPLACED: Final = frozenset({"host", "content-length", "expect", "accept-encoding"})
log = logging.getLogger(__name__)
NO_LOG: Final = logging.getLogger(f"{__name__}.protocol")  # an agent could fill the judge's output with broken requests
NO_LOG.disabled = True
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
        self._turn, self._is_turn_ending = 0, False
        self._number = meter.last_number
        self._bytes = 0
        self._bodies, self._unrecorded = ByteBudget(MAX_BODIES), ByteBudget(MAX_UNRECORDED)
        self._tasks: set[asyncio.Task[web.StreamResponse]] = set()
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
        self._turn, self._is_turn_ending = number, False

    def end_turn(self) -> None:
        """Take note that the judge ends the turn: calls that end from now on are not given up by the agent."""
        self._is_turn_ending = True

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
        most = most_connections()
        limit = max(1, most // len(servers))
        self._calls = asyncio.Semaphore(min(CALLS, most))
        upstreams = [self._make_upstream(server) for server in servers]
        routes = [_Route(server, upstream) for server, upstream in zip(servers, upstreams, strict=True)]
        acceptors = [
            Acceptor(
                partial(self._handle, route), listener, limit,
                handler_cancellation=True, access_log=None, auto_decompress=False,
                max_line_size=HEAD_BYTES, max_field_size=HEAD_BYTES, keepalive_timeout=KEEP_ALIVE_S, logger=NO_LOG,
            )
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
        for call in list(self._tasks):
            call.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for upstream in upstreams:
            await upstream.close()

    async def _handle(self, route: _Route, request: web.BaseRequest) -> web.StreamResponse:
        """Carry a call in a task of its own: an answer that has begun is read on when its client has gone."""
        share = BodyShare(self._bodies)
        try:
            call = await self._read(route, request, share)
        except BaseException as error:
            share.give_back()
            if isinstance(error, _Refused):
                return _error_response(error.answer)
            raise
        client = AnsweredClient(request)
        task = asyncio.create_task(self._carry(route, client, call))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, share))
        try:
            return await asyncio.shield(task)
        except _Refused as refusal:
            return _error_response(refusal.answer)
        except asyncio.CancelledError:
            if client.has_head:
                client.is_gone = True
                self._loop.call_later(REST_S, task.cancel)
            else:
                task.cancel()
            raise

    def _ended(self, share: BodyShare, task: asyncio.Task[web.StreamResponse]) -> None:
        """Forget a call. An error of a call whose client has gone is taken note of here: asyncio would print it."""
        self._tasks.discard(task)
        share.give_back()
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, _Refused):
            log.error("a call to the model has failed", exc_info=error)

    async def _read(self, route: _Route, request: web.BaseRequest, share: BodyShare) -> GatewayRequest:
        """Check a call and return it without its token."""
        raw, base = request.raw_path, route.server.path
        below = raw.removeprefix(base)
        is_below = raw.startswith(base) and (below.startswith("/") or (bool(base) and below[:1] in ("", "?")))
        endpoint = find_endpoint(request.method, below) if is_below else None
        api = endpoint.api if endpoint else None
        tokens, headers, target = apis.take_token(passed_on(_flat(request)), endpoint.target if endpoint else below)
        if route.server.key is not None and not any(self._is_token(token) for token in tokens):
            _refuse(api, 401, "the key of this call is not the one that this run's agent was given")
        if api is None:
            path = raw.partition("?")[0][:200]
            _refuse(api, 404, f"{request.method} {path}: the gateway carries calls for answers, embeddings, token "
                    "counts and lists of models")  # fmt: skip
        body = await _body(request, api, share)
        kept = {name: value for name, value in headers.items() if name not in REPLACED}
        kept["accept-encoding"] = "identity"  # in a compressed answer no secret would be seen
        return GatewayRequest(api, request.method, target, kept, body)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="surrogateescape"), self.token.encode())

    async def _carry(self, route: _Route, client: AnsweredClient, call: GatewayRequest) -> web.StreamResponse:
        async with self._calls:
            is_admitted = call.method == "POST"
            if is_admitted and (limit := self.meter.admit()):
                raise _Refused(apis.quota_error(call.api, f"the run's limit of {limit} is used up"))
            under_way = CallUnderWay(0, self._turn, call, is_admitted)
            try:
                async with self.patience.admitted(self.meter) as under_way.waited_s:
                    if self._number >= MAX_CALLS:
                        raise _Refused(apis.quota_error(call.api, f"a run makes at most {MAX_CALLS:,} calls"))
                    under_way.number = self._number = self._number + 1
                    return await self._answer(route, client, under_way)
            except asyncio.CancelledError:
                under_way.give_up(self._is_turn_ending)
                raise
            except SuiteLimitReached as reached:
                self.meter.suite_hit = reached.limit
                raise _Refused(apis.quota_error(call.api, f"the suite's limit of {reached.limit} is used up")) from None
            finally:
                if under_way.number:
                    self._keep(under_way)
                elif is_admitted:
                    self.meter.withdraw()

    async def _answer(self, route: _Route, client: AnsweredClient, call: CallUnderWay) -> web.StreamResponse:
        question = await self._question(call.request)
        asking = None if question.model in route.without_usage else question.asking
        try:
            patient = await self._send(route, call, asking or question.as_made)
            if asking and patient.answer.status in NOT_UNDERSTOOD:
                asking, patient = None, await self._send(route, call, question.as_made)
                if patient.answer.status < 300 and len(route.without_usage) < MODELS:
                    route.without_usage.add(question.model)
        except Outage as outage:
            call.is_troubled = True
            call.attempts, call.waited_s = call.attempts + outage.attempts, call.waited_s + outage.waited_s
            _refuse(call.request.api, 502, f"the model's server cannot be reached: {outage}")
        call.begin(patient.answer)
        return await self._pass_on(client, patient.answer, call, hides_usage=asking is not None)

    async def _question(self, request: GatewayRequest) -> UsageQuestion:
        try:
            if "content-encoding" in request.headers:
                return await asyncio.to_thread(ask_for_usage, request)
            return ask_for_usage(request)
        except UnclearCall as error:
            _refuse(request.api, error.status, str(error))

    async def _send(self, route: _Route, call: CallUnderWay, request: GatewayRequest) -> PatientAnswer:
        call.request = request
        patient = await self.patience.send(route.upstream, request)
        call.is_troubled = call.is_troubled or patient.attempts > 1
        call.attempts += patient.attempts + patient.resent
        call.waited_s += patient.waited_s
        return patient

    async def _pass_on(
        self, client: AnsweredClient, answer: UpstreamAnswer, call: CallUnderWay, hides_usage: bool
    ) -> web.StreamResponse:
        remover = UsageRemover() if hides_usage and call.is_stream else None
        response = await client.begin(_of_any_length(answer) if remover else answer)
        rest = 0
        try:
            async for data in answer.body:
                self._bytes += len(data)
                call.feed(data)
                if call.is_whole:
                    self._finish(call)
                await client.write(remover.feed(data) if remover else data)
                rest += len(data) if client.is_gone else 0
                if rest > REST_BYTES:
                    raise ConnectionError("its client has gone")
            await client.write(remover.rest() if remover else b"")
        except OSError as error:
            log.info("an answer of the model was cut: %s", error)
            call.is_troubled = call.is_troubled or not client.is_gone
            client.cut()
            return response
        finally:
            if isinstance(answer.body, AsyncGenerator):
                await answer.body.aclose()
        self._finish(call)
        await client.end()
        return response

    def _finish(self, call: CallUnderWay) -> None:
        """Count a call before its client knows that the answer is over, and makes its next call."""
        call.is_complete = True
        self._count(call)

    def _count(self, call: CallUnderWay) -> ModelCall:
        if call.counted is None:
            call.counted = self.meter.add(call.summary(), call.is_admitted)
        return call.counted

    def _keep(self, call: CallUnderWay) -> None:
        """Count and record a call that has ended, however it did. What fails here must not fail the client."""
        try:
            usage = self._count(call).usage
            if self._sink is None:
                return
            if self._unrecorded.take(call.size):
                self._recorder.submit(self._record, self._sink, call, usage)
            else:
                self._sink.leave_out(call.number, "more calls wait to be recorded than memory is set aside for")
        except Exception:
            log.exception("a call to the model was not counted")

    def _record(self, sink: ExchangeSink, call: CallUnderWay, usage: Usage | None) -> None:
        try:
            sink.append(replace(call.exchange(), usage=usage))
        except Exception as error:
            log.exception("a call to the model was not recorded")
            sink.leave_out(call.number, type(error).__name__)
        finally:
            self._unrecorded.give(call.size)


@dataclass
class _Route:
    """One model server and the way to it. ``without_usage``: models, as JSON, for which the server refuses streamed
    Chat Completions that ask for usage."""

    server: ModelServer
    upstream: Upstream
    without_usage: set[bytes] = field(default_factory=set)


class _Refused(Exception):
    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def _refuse(api: ModelApi | None, status: int, text: str) -> NoReturn:
    raise _Refused(apis.error(api, status, f"EvoPolicyGym: {text}"))


def _http_upstreams(servers: Sequence[ModelServer]) -> MakeUpstream:
    """Return the maker of upstreams. Certificates are read now, in the caller's thread, so that the caller gets their
    errors."""
    contexts = {id(server): server.tls() for server in servers}
    return lambda server: HttpUpstream(server, contexts[id(server)])


def _of_any_length(answer: UpstreamAnswer) -> UpstreamAnswer:
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return replace(answer, headers=headers)


def _flat(request: web.BaseRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(request: web.BaseRequest, api: ModelApi, share: BodyShare) -> bytes:
    body = bytearray()
    while data := await _piece(request, api):
        body += data
        if len(body) > MAX_BODY:
            _refuse(api, 413, f"the call has more than {MAX_BODY >> 20} MiB")
        if not share.take(len(data)):
            _refuse(api, 503, f"the calls that are under way have more than {MAX_BODIES >> 20} MiB")
    return bytes(body)


async def _piece(request: web.BaseRequest, api: ModelApi) -> bytes:
    try:
        async with asyncio.timeout(BODY_SILENCE_S):
            return await request.content.readany()
    except TimeoutError:
        _refuse(api, 408, f"the rest of the call did not arrive for {BODY_SILENCE_S:g} s")


def _error_response(answer: ErrorAnswer) -> web.Response:
    from aiohttp import web

    return web.Response(status=answer.status, body=answer.body, content_type="application/json")
