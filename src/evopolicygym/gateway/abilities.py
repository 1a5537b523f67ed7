"""Ask a model's server what it can do: its list of models, and one tiny call in each API."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from evopolicygym.gateway import apis
from evopolicygym.gateway.apis import UsageReader
from evopolicygym.gateway.exchange import GatewayRequest, ModelApi, Upstream, UpstreamAnswer
from evopolicygym.gateway.upstream import HttpUpstream, ModelServer

TIMEOUT_S: Final = 120.0
MAX_BYTES: Final = 1 << 20
MAX_WORDS: Final = 200
ASKED: Final = (ModelApi.OPENAI_CHAT, ModelApi.OPENAI_RESPONSES, ModelApi.ANTHROPIC_MESSAGES)  # whatever the client
SAY_OK: Final = [{"role": "user", "content": "Answer with the word ok."}]
SCHEMA: Final = {"type": "object", "properties": {"word": {"type": "string"}}}
CHAT_TOOL: Final = {"type": "function", "function": {"name": "say", "description": "Say it.", "parameters": SCHEMA}}


@dataclass(frozen=True)
class ApiAbility:
    """The answer of a server to a tiny streamed call that offers a tool. ``error`` is empty if it answered."""

    api: str
    answers: bool
    streams: bool = False
    reports_usage: bool = False
    model: str | None = None
    error: str = ""

    @property
    def words(self) -> str:
        if not self.answers:
            return f"no: {self.error}"
        served = f" (served by {self.model})" if self.model else ""
        streaming = "streams" if self.streams else "does not stream"
        usage = "reports usage" if self.reports_usage else "reports no usage: tokens and cost cannot be limited"
        return f"answers{served}, takes tools, {streaming}, {usage}"


@dataclass(frozen=True)
class ServerAbilities:
    """Abilities of a model's server. ``models`` is None if it has no list. ``needed``: the API that the agent's client
    uses; empty if it may be any."""

    url: str
    models: list[str] | None
    apis: list[ApiAbility] = field(default_factory=list)
    needed: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether the server answers in a way that the agent can use."""
        return any(api.answers for api in self.apis if self.needed in ("", api.api))


def ask_server(server: ModelServer, model: str | None, needed: str = "") -> ServerAbilities:
    """Make the calls. Without ``model``, the first of the server's list is asked. Raises UserError."""
    return asyncio.run(_ask(server, model, needed))


async def _ask(server: ModelServer, model: str | None, needed: str) -> ServerAbilities:
    upstream = HttpUpstream(server, server.tls())
    try:
        models = await _models(upstream, server)
        name = model or (models[0] if models else "default")
        asked = [request for request in _requests(server, name) if request.api in (needed, *ASKED)]
        tried = [await _try(upstream, request) for request in asked]
        return ServerAbilities(server.base_url, models, tried, needed)
    finally:
        await upstream.close()


async def _models(upstream: Upstream, server: ModelServer) -> list[str] | None:
    target = "/models" if server.path else "/v1/models"
    headers = _headers(ModelApi.OPENAI_CHAT) | _headers(ModelApi.ANTHROPIC_MESSAGES)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await upstream.send(GatewayRequest(ModelApi.OTHER, "GET", target, headers, b""))
            listed = json.loads(await _read(answer))["data"]
            return [str(entry["id"])[: apis.MAX_MODEL_NAME] for entry in listed]
    except (OSError, TimeoutError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _requests(server: ModelServer, model: str) -> list[GatewayRequest]:
    chat = {"model": model, "messages": SAY_OK, "tools": [CHAT_TOOL], "stream": True,
            "stream_options": {"include_usage": True}}  # fmt: skip
    responses = {"model": model, "input": SAY_OK, "stream": True, "max_output_tokens": 16,
                 "tools": [{"type": "function", "name": "say", "parameters": SCHEMA}]}  # fmt: skip
    messages = {"model": model, "messages": SAY_OK, "stream": True, "max_tokens": 16,
                "tools": [{"name": "say", "input_schema": SCHEMA}]}  # fmt: skip
    text = [{"parts": [{"text": SAY_OK[0]["content"]}]}]
    gemini = {"contents": text, "generationConfig": {"maxOutputTokens": 16},
              "tools": [{"functionDeclarations": [CHAT_TOOL["function"]]}]}  # fmt: skip
    before = "" if server.path else "/v1"
    calls: list[tuple[ModelApi, str, dict[str, Any]]] = [
        (ModelApi.OPENAI_CHAT, "/chat/completions", chat),
        (ModelApi.OPENAI_RESPONSES, "/responses", responses),
        (ModelApi.ANTHROPIC_MESSAGES, "/messages", messages),
    ]
    targets = [(api, before + path, body) for api, path, body in calls]
    stream = f"/v1beta/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
    return [
        GatewayRequest(api, "POST", target, _headers(api), json.dumps(body).encode())
        for api, target, body in (*targets, (ModelApi.GEMINI, stream, gemini))
    ]


def _headers(api: ModelApi) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    if api is ModelApi.ANTHROPIC_MESSAGES:
        return headers | {"x-api-key": apis.KEY, "anthropic-version": "2023-06-01"}
    if api is ModelApi.GEMINI:
        return headers | {"x-goog-api-key": apis.KEY}
    return headers | {"authorization": apis.BEARER + apis.KEY}


async def _try(upstream: Upstream, request: GatewayRequest) -> ApiAbility:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await upstream.send(request)
            body = await _read(answer)
    except (OSError, TimeoutError) as error:
        return ApiAbility(request.api, False, error=str(error) or "no answer in time")
    if answer.status != 200:
        return ApiAbility(request.api, False, error=f"{answer.status} {_message(body)}".strip())
    is_stream = "event-stream" in answer.headers.get("content-type", "")
    reader = UsageReader(request.api, is_stream)
    reader.feed(body)
    reader.end()
    return ApiAbility(request.api, True, is_stream, reader.usage is not None, reader.model)


async def _read(answer: UpstreamAnswer) -> bytes:
    body = b""
    async for data in answer.body:
        body += data
        if len(body) > MAX_BYTES:
            break
    return body


def _message(body: bytes) -> str:
    """Return the words of an error, whatever its form."""
    try:
        error = json.loads(body)
        error = error.get("error", error)
        return str(error["message"] if isinstance(error, dict) else error)[:MAX_WORDS]
    except (ValueError, AttributeError, KeyError, RecursionError):
        return body[:MAX_WORDS].decode(errors="replace").strip()
