"""One call that is under way: what it asked, and what is known of its answer by now."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from evopolicygym.gateway import apis
from evopolicygym.gateway.apis import UsageReader
from evopolicygym.gateway.bodies import MAX_DECODED, BodyDecoder, decoded
from evopolicygym.gateway.exchange import Exchange, GatewayRequest, UpstreamAnswer
from evopolicygym.gateway.metering import ModelCall

MODEL_BYTES: Final = 1 << 20  # of a compressed call, in which the model's name is looked for


@dataclass
class CallUnderWay:
    """A call and what is known of its answer by now. `summary` ends it; `exchange` may be called in another thread
    after that: it decompresses the call."""

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
        self._began, self._first_byte_s, self._duration_s = time.monotonic(), 0.0, 0.0
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
        call, self._duration_s = self.request, self._seconds()
        model = self._reader.model if self._reader else None
        return ModelCall(
            self.number, self.turn, call.api, self.status, self.is_complete,
            model or apis.requested_model(call.api, call.target, self._request_body(MODEL_BYTES)),
            self._reader.usage if self._reader else None,
            round(self._first_byte_s, 4), round(self._duration_s, 4), self.attempts, round(self.waited_s, 4),
        )  # fmt: skip

    def exchange(self) -> Exchange:
        call = self.request
        return Exchange(
            self.number, self.turn, call.api, call.method, call.target, call.headers, self._request_body(),
            self.status, self.headers, bytes(self._body), self.is_complete and self._decoder.is_readable,
            self.started_at, self._first_byte_s, self._duration_s, self.attempts, self.waited_s,
            self._reader.model if self._reader else None,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Bytes that are held of the call and its answer."""
        return len(self.request.body) + len(self._body)

    def _request_body(self, limit: int = MAX_DECODED) -> bytes:
        return decoded(self.request.body, self.request.headers.get("content-encoding", ""), limit)

    def _seconds(self) -> float:
        return time.monotonic() - self._began
