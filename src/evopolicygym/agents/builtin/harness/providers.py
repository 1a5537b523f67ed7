"""Models behind the two wire formats of providers, how a command line names one, and the events that its agents print.

A conversation is stored in the provider's own message format.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final

RETRIES: Final = 6
FIRST_WAIT_S: Final = 2.0
REQUEST_SECONDS: Final = 900
MAX_OUTPUT_TOKENS: Final = 32_000
TRANSIENT: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


class ProviderError(Exception):
    """A failed request. ``code`` is the HTTP status; 0 if there was no response."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class RequestUsage:
    """Tokens of one request. The kinds do not overlap, except that ``output`` includes ``reasoning``."""

    fresh_input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: RequestUsage) -> RequestUsage:
        return RequestUsage(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class ModelReply:
    """A response of the model. ``message`` is its part of the conversation, in the provider's format."""

    text: str
    calls: list[Call]
    usage: RequestUsage
    model: str
    message: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Provider(ABC):
    """A model behind a provider's API. ``key`` is sent in a header and never printed or saved."""

    url: str
    key: str = field(repr=False)
    model: str
    system: str
    tools: list[dict[str, Any]]

    @abstractmethod
    def complete(self, messages: list[dict[str, Any]]) -> ModelReply:
        """Send the conversation and return the response. Raises ProviderError."""

    @abstractmethod
    def results(self, answers: list[tuple[Call, str]]) -> list[dict[str, Any]]:
        """Return the results of tool calls as messages of the conversation."""


class ChatCompletions(Provider):
    """The chat completions API of OpenAI, which many providers offer."""

    def complete(self, messages: list[dict[str, Any]]) -> ModelReply:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "system", "content": self.system}, *messages],
        }
        if self.tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in self.tools]
        answer = post(f"{self.url}/chat/completions", body, {"Authorization": f"Bearer {self.key}"})
        message = answer["choices"][0]["message"]
        calls = [
            Call(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
            for call in message.get("tool_calls") or []
        ]
        return ModelReply(
            message.get("content") or "", calls, _chat_usage(answer), answer.get("model", self.model), message
        )

    def results(self, answers: list[tuple[Call, str]]) -> list[dict[str, Any]]:
        return [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answers]


class Messages(Provider):
    """The messages API of Anthropic. The system prompt is marked for its cache."""

    def complete(self, messages: list[dict[str, Any]]) -> ModelReply:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "system": [{"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}}],
            "messages": messages,
        }
        if self.tools:
            body["tools"] = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in self.tools
            ]
        headers = {"x-api-key": self.key, "anthropic-version": "2023-06-01"}
        base = self.url if self.url.endswith("/v1") else f"{self.url}/v1"  # its base URLs are written without
        answer = post(f"{base}/messages", body, headers)
        content = answer["content"]
        text = "".join(block["text"] for block in content if block["type"] == "text")
        calls = [Call(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
        message = {"role": "assistant", "content": content}
        return ModelReply(text, calls, _messages_usage(answer), answer.get("model", self.model), message)

    def results(self, answers: list[tuple[Call, str]]) -> list[dict[str, Any]]:
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in answers]
        return [{"role": "user", "content": content}]


def post(url: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Send a request; wait and retry after overload or a broken connection. Raises ProviderError for other errors."""
    for attempt in range(RETRIES + 1):
        try:
            return _post(url, body, headers)
        except ProviderError as error:
            if attempt == RETRIES or (error.code and error.code not in TRANSIENT):
                raise
            time.sleep(FIRST_WAIT_S * 2**attempt)
    raise AssertionError


def _post(url: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    headers = headers | {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise ProviderError(error.code, error.read().decode(errors="replace")[:2000]) from error
    except (OSError, ValueError) as error:
        raise ProviderError(0, str(error)) from error


def _arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a call. If they are no JSON object, return some that every tool refuses with an error
    message that the model gets to read."""
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"unreadable": text}


def _chat_usage(answer: dict[str, Any]) -> RequestUsage:
    usage = answer.get("usage") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return RequestUsage(usage.get("prompt_tokens", 0) - cached, cached, 0, usage.get("completion_tokens", 0), reasoning)


def _messages_usage(answer: dict[str, Any]) -> RequestUsage:
    usage = answer.get("usage") or {}
    return RequestUsage(
        usage.get("input_tokens", 0),
        usage.get("cache_read_input_tokens") or 0,
        usage.get("cache_creation_input_tokens") or 0,
        usage.get("output_tokens", 0),
    )


PROVIDERS: Final[dict[str, tuple[type[ChatCompletions] | type[Messages], str, str]]] = {
    "openai": (ChatCompletions, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": (Messages, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="PROVIDER/NAME: openai/... (and compatible) or anthropic/...")
    parser.add_argument("--url", help="address of the provider's API, up to and including /v1")


def connect(
    parser: argparse.ArgumentParser, options: argparse.Namespace, system: str, tools: list[dict[str, Any]]
) -> Provider:
    """Return the model that the options name. Exit with a message if there is none, or no key."""
    name, _, model = options.model.partition("/")
    if name not in PROVIDERS or not model:
        parser.error(f"--model is PROVIDER/NAME with a provider of {', '.join(PROVIDERS)}")
    make, url, variable = PROVIDERS[name]
    key = os.environ.get(variable, "")
    if not key:
        parser.error(f"no API key: the variable {variable} is not set")
    return make((options.url or url).rstrip("/"), key, model, system, tools)


def emit(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)
