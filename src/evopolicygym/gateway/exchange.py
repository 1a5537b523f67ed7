"""One call of an agent to its model, as the gateway carries, meters and records it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from evopolicygym.agents.usage import Usage


class ModelApi(StrEnum):
    """The wire format of a call. OTHER: lists of models and the like, which are free."""

    ANTHROPIC_MESSAGES = "anthropic-messages"
    OPENAI_RESPONSES = "openai-responses"
    OPENAI_CHAT = "openai-chat"
    GEMINI = "gemini"
    OPENAI_COMPLETIONS = "openai-completions"
    OPENAI_EMBEDDINGS = "openai-embeddings"
    GEMINI_EMBEDDINGS = "gemini-embeddings"
    TOKEN_COUNTS = "token-counts"
    OTHER = "other"

    @property
    def is_conversation(self) -> bool:
        return self in CONVERSATIONS


CONVERSATIONS: Final = frozenset({
    ModelApi.ANTHROPIC_MESSAGES, ModelApi.OPENAI_RESPONSES, ModelApi.OPENAI_CHAT, ModelApi.GEMINI,
})  # fmt: skip


@dataclass(frozen=True)
class GatewayRequest:
    """Request of the agent's client. ``target``: path and query below the base URL. The client's token is in none
    of the fields. ``body`` is as sent."""

    api: ModelApi
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class UpstreamAnswer:
    """An answer whose body arrives piece by piece, as the server sends it, decompressed if that is possible.
    ``resent``: how often the call was sent again because the server closed a connection of an earlier call."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    resent: int = 0


class Upstream(Protocol):
    """Where calls are answered: the provider, or a recording."""

    async def send(self, request: GatewayRequest) -> UpstreamAnswer:
        """Return the answer as soon as its head is there. Raise OSError if there is none."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Exchange:
    """One call and its answer, complete. Bodies are decompressed. ``number`` counts from 1 in a run, ``turn`` is the
    agent's turn. ``status`` 0: there was no answer. ``is_complete``: the answer arrived to its end. ``attempts`` and
    ``waited_s``: what the gateway's patience did before this answer. Times are in seconds; ``started_at`` is Unix
    time."""

    number: int
    turn: int
    api: ModelApi
    method: str
    target: str
    request_headers: Mapping[str, str]
    request_body: bytes = field(repr=False)
    status: int
    response_headers: Mapping[str, str]
    response_body: bytes = field(repr=False)
    is_complete: bool
    started_at: float
    first_byte_s: float
    duration_s: float
    attempts: int = 1
    waited_s: float = 0.0
    model: str | None = None
    usage: Usage | None = None


class ExchangeSink(Protocol):
    """Keeps exchanges. `append` is called after the client has its answer, always in the same thread."""

    def append(self, exchange: Exchange) -> None: ...

    def leave_out(self, number: int, reason: str) -> None:
        """Take note of a call that is not kept; from any thread."""
