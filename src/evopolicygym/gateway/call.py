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

OUTSIDE_STATUSES: Final = frozenset({401, 402, 403, 407, 408, 425, 429})  # of the provider, network or account
SILENT_S: Final = 60.0  # after which a server that has not begun its answer is in trouble
MODEL_BYTES: Final = 1 << 20  # of a compressed call, in which the model's name is looked for


@dataclass
class CallUnderWay:
    """A call and what is known of its answer by now. ``number`` is 0 until it may be sent. `summary` ends it;
    `exchange` may be called in another thread after that: it decompresses the call."""

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
    is_troubled: bool = False
    is_given_up: bool = False

    def __post_init__(self) -> None:
        self._began, self._first_byte_s, self._duration_s = time.monotonic(), 0.0, 0.0
        self._reader: UsageReader | None = None
        self._decoder = BodyDecoder("")
        self._received = 0
        self._body = bytearray()

    def begin(self, answer: UpstreamAnswer) -> None:
        self.status, self.headers = answer.status, dict(answer.headers)
        self.is_troubled = self.is_troubled or self.status in OUTSIDE_STATUSES or self.status >= 500
        self._reader = UsageReader(self.request.api, self.is_stream)
        self._decoder = BodyDecoder(self.headers.get("content-encoding", ""))
        self.is_troubled = self.is_troubled or not self._decoder.is_readable  # compressed in a way that none asked for

    def give_up(self, is_ended_by_judge: bool) -> None:
        """Take note that the client has gone. That is no trouble of the provider, which an agent could invent, unless
        the server has been silent for long, or until the judge ended the turn."""
        is_silent = not self._first_byte_s and (is_ended_by_judge or self._seconds() - self.waited_s >= SILENT_S)
        self.is_troubled = self.is_troubled or is_silent
        self.is_given_up = not self.status

    @property
    def is_stream(self) -> bool:
        return "event-stream" in self.headers.get("content-type", "")

    @property
    def is_whole(self) -> bool:
        """Whether as much of the answer has arrived as its head announced. Its client knows the end from that."""
        return self.headers.get("content-length") == str(self._received)

    def feed(self, data: bytes) -> None:
        self._received += len(data)
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
        served = self._reader.model if self._reader else None
        model = served or apis.requested_model(call.api, call.target, self._request_body(MODEL_BYTES))
        return ModelCall(
            self.number, self.turn, call.api, self.status, self.is_complete,
            model and model.encode(errors="replace").decode(),  # the agent may ask for half of a surrogate pair
            self._reader.usage if self._reader else None,
            round(self._first_byte_s, 4), round(self._duration_s, 4), self.attempts, round(self.waited_s, 4),
            self.is_troubled, self.is_given_up,
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
