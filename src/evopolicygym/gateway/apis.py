"""The wire formats of model APIs: where the key stands, usage in an answer, quota errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from evopolicygym.agents.json_events import values_at
from evopolicygym.agents.prices import GATEWAY
from evopolicygym.agents.usage import Meter, Usage
from evopolicygym.gateway.exchange import ModelApi

KEY: Final = "[key]"  # stands in a call for the real key, which is put there when the call leaves
BEARER: Final = "Bearer "
KEY_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
KEY_IN_QUERY: Final = re.compile(r"(?<=[?&])key=([^&]*)")


def take_token(headers: Mapping[str, str], target: str) -> tuple[list[str], dict[str, str], str]:
    """Return the tokens of a call, and its headers and target with `KEY` where they stood."""
    tokens, clean = list[str](), dict[str, str]()
    for name, value in headers.items():
        if name.lower() not in KEY_HEADERS:
            clean[name] = value
            continue
        scheme = BEARER if value.lower().startswith(BEARER.lower()) else ""
        tokens.append(value[len(scheme) :].strip())
        clean[name] = scheme + KEY
    tokens += KEY_IN_QUERY.findall(target)
    return tokens, clean, KEY_IN_QUERY.sub(f"key={KEY}", target)


def put_key(headers: Mapping[str, str], target: str, key: str) -> tuple[dict[str, str], str]:
    """Return headers and target with the key where `KEY` stands."""
    filled = {
        name: value.replace(KEY, key) if name.lower() in KEY_HEADERS else value for name, value in headers.items()
    }
    return filled, KEY_IN_QUERY.sub(lambda _: f"key={key}", target)


@dataclass(frozen=True)
class _AnswerFormat:
    """Where usage and model stand in an answer or in the events of a streamed one, and what the figures mean."""

    usage: tuple[str, ...]
    model: tuple[str, ...]
    meter: Meter


def _meter(input: str, output: str, includes_cache: bool, **more: Any) -> Meter:
    return Meter(scope="turn", input=input, output=output, input_includes_cache=includes_cache, **more)


CHAT: Final = _AnswerFormat(
    ("usage", "choices.*.usage"),  # Moonshot's is in the choice
    ("model",),
    _meter(
        "prompt_tokens",
        "completion_tokens",
        True,
        cache_read="prompt_tokens_details.cached_tokens",
        cache_write="prompt_tokens_details.cache_write_tokens",
        reasoning="completion_tokens_details.reasoning_tokens",
        cost="cost",  # OpenRouter's own figure
    ),
)
GEMINI_FORMAT: Final = _AnswerFormat(
    ("usageMetadata",),
    ("modelVersion",),
    _meter(
        "promptTokenCount",
        "candidatesTokenCount",
        True,
        cache_read="cachedContentTokenCount",
        reasoning="thoughtsTokenCount",
        output_includes_reasoning=False,
    ),
)
FORMATS: Final = {
    ModelApi.ANTHROPIC_MESSAGES: _AnswerFormat(
        ("message.usage", "usage"),
        ("message.model", "model"),
        _meter(
            "input_tokens",
            "output_tokens",
            False,
            cache_read="cache_read_input_tokens",
            cache_write="cache_creation_input_tokens",
        ),
    ),
    ModelApi.OPENAI_RESPONSES: _AnswerFormat(
        ("response.usage", "usage"),
        ("response.model", "model"),
        _meter(
            "input_tokens",
            "output_tokens",
            True,
            cache_read="input_tokens_details.cached_tokens",
            cache_write="input_tokens_details.cache_write_tokens",
            reasoning="output_tokens_details.reasoning_tokens",
        ),
    ),
    ModelApi.OPENAI_CHAT: CHAT,
    ModelApi.GEMINI: GEMINI_FORMAT,
    ModelApi.GEMINI_EMBEDDINGS: GEMINI_FORMAT,
}
# What an API leaves out of its usage when it is zero.
ZERO: Final = {
    ModelApi.GEMINI: {"candidatesTokenCount": 0},
    ModelApi.GEMINI_EMBEDDINGS: {"candidatesTokenCount": 0},
    ModelApi.OPENAI_EMBEDDINGS: {"completion_tokens": 0},
}
MAX_MODEL_NAME: Final = 200


class UsageReader:
    """Reads usage and the served model from an answer as it passes, decompressed. A streamed answer repeats its usage;
    the last figure of each kind counts."""

    def __init__(self, api: ModelApi, is_stream: bool, limit: int = 64 << 20) -> None:
        self._api, self._is_stream, self._limit = api, is_stream, limit
        self._format = FORMATS.get(api, CHAT)
        self._unread = bytearray()
        self._is_lost = False
        self._figures: dict[str, Any] = {}
        self.model: str | None = None

    def feed(self, data: bytes) -> None:
        """Read the next piece. Text without a line end is kept up to the limit; what exceeds it is not read."""
        if self._is_lost:
            return
        self._unread += data
        if self._is_stream and b"\n" in data:
            *lines, rest = self._unread.split(b"\n")
            self._unread = bytearray(rest)
            for line in lines:
                self._read_line(bytes(line))
        if len(self._unread) > self._limit:
            self._unread.clear()
            self._is_lost = not self._is_stream

    def end(self) -> None:
        if self._is_stream:
            self._read_line(bytes(self._unread))
        elif not self._is_lost:
            self._read_event(bytes(self._unread))
        self._unread.clear()

    @property
    def usage(self) -> Usage | None:
        """Return what was read so far; None if the answer reports none."""
        if not self._figures:
            return None
        usage = self._format.meter.read(ZERO.get(self._api, {}) | self._figures)
        return replace(usage, source=GATEWAY) if usage else None

    def _read_line(self, line: bytes) -> None:
        if line.startswith(b"data:") and (b"sage" in line or (self.model is None and b"odel" in line)):
            self._read_event(line[5:])

    def _read_event(self, text: bytes) -> None:
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        for part in event if isinstance(event, list) else [event]:  # Gemini streams a list without `alt=sse`
            self._read_part(part)

    def _read_part(self, event: Any) -> None:
        for path in self._format.usage:
            for figures in values_at(event, path):
                if isinstance(figures, dict):
                    self._figures |= {name: value for name, value in figures.items() if value is not None}
        names = [name for path in self._format.model for name in values_at(event, path) if isinstance(name, str)]
        if names:
            self.model = names[0][:MAX_MODEL_NAME] or self.model


def requested_model(api: ModelApi, path: str, body: bytes) -> str | None:
    """Return the model that a call asks for."""
    if api in (ModelApi.GEMINI, ModelApi.GEMINI_EMBEDDINGS):
        match = re.search(r"/models/([^/:]+):", path)
        return match[1][:MAX_MODEL_NAME] if match else None
    try:
        name = json.loads(body).get("model")
    except (ValueError, AttributeError, RecursionError):
        return None
    return name[:MAX_MODEL_NAME] if isinstance(name, str) else None


@dataclass(frozen=True)
class ErrorAnswer:
    """An answer that the gateway itself gives, in the words of the call's API."""

    status: int
    body: bytes


OPENAI_QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
ANTHROPIC_QUOTA: Final = "Your credit balance is too low to access the Anthropic API."
GEMINI_QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
GEMINI_STATUS: Final = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT"}
ANTHROPIC_TYPE: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def quota_error(api: ModelApi, reason: str) -> ErrorAnswer:
    """Return the provider's own answer to a customer who has used up what was paid for, with our reason after it."""
    if api is ModelApi.ANTHROPIC_MESSAGES:
        return _answer(400, _anthropic("invalid_request_error", f"{ANTHROPIC_QUOTA} ({reason})"))
    if api in (ModelApi.GEMINI, ModelApi.GEMINI_EMBEDDINGS):
        return _answer(429, _gemini(429, "RESOURCE_EXHAUSTED", f"{GEMINI_QUOTA} ({reason})"))
    text = f"{OPENAI_QUOTA} ({reason})"
    return _answer(429, _openai("insufficient_quota", text, "insufficient_quota"))


def error(api: ModelApi | None, status: int, text: str) -> ErrorAnswer:
    """Return an error in the API's own form. A call that is not recognised gets one that all clients can read."""
    if api is ModelApi.GEMINI:
        return _answer(status, _gemini(status, GEMINI_STATUS.get(status, "UNAVAILABLE"), text))
    kind = ANTHROPIC_TYPE.get(status, "api_error")
    if api is ModelApi.ANTHROPIC_MESSAGES:
        return _answer(status, _anthropic(kind, text))
    return _answer(status, {"type": "error", **_openai(kind, text, None)})


def is_final(api: ModelApi, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether an error will not pass by waiting, although its status says so: an empty account."""
    if headers.get("x-should-retry") == "false":
        return True
    return status == 429 and (b"insufficient_quota" in body or b"billing_hard_limit_reached" in body)


def _answer(status: int, value: Any) -> ErrorAnswer:
    return ErrorAnswer(status, json.dumps(value).encode())


def _openai(kind: str, text: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def _anthropic(kind: str, text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}}


def _gemini(status: int, name: str, text: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": text, "status": name}}
