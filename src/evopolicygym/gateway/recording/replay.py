"""Answers calls from a recording: the same client plays the same run again, without a key and without a server.

Each call is compared with the recorded ones by its content (matching.py) and gets the answer of the first equal
one that is not used yet. Errors, cut answers and latency are replayed as they were. The first call that was not
recorded ends the replay, with a diff.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.gateway import apis
from evopolicygym.gateway.bodies import decoded
from evopolicygym.gateway.exchange import Exchange, GatewayRequest, ModelApi, UpstreamAnswer
from evopolicygym.gateway.recording.matching import CallMatcher, common_lines, difference, digest
from evopolicygym.gateway.recording.reader import ModelRecording, StoredExchange
from evopolicygym.gateway.recording.rewriting import rewrite_answer
from evopolicygym.gateway.redaction import NOT_IN_HEADERS, ExchangeRedactor
from evopolicygym.gateway.upstream import passed_on

NOT_REPLAYED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"})
PIECES: Final = 16  # in which a streamed answer arrives over its recorded time
FIRST_STATUS, LAST_STATUS = 200, 599
LONGEST_WAIT_S: Final = 1800.0  # a server that is silent for longer is given up
MAX_CHARACTERS: Final = 256 << 20  # of different texts in calls, which take a second per 10 MB
MAX_HEADERS: Final = 256
MAX_HEADER: Final = 1 << 13  # characters of one header
HEADER_NAME: Final = re.compile(r"[\w-]{1,200}", re.ASCII)
REFUSED: Final = 400  # a status that no client tries again


class ReplayDiverged(UserError):
    """A client asked its model something that the recording does not have."""

    exit_code = 6

    def __init__(self, recording: Path, answered: int, total: int, reason: str, diff: list[str]) -> None:
        super().__init__(
            f"the replay of {recording} ends after {answered} of {total} recorded calls: {reason}",
            "\n".join(diff) or "Replay with the same client version, task, seeds and settings as the recorded run.",
        )


def nothing_recorded(folder: Path, notes: Sequence[str] = ()) -> UserError:
    """Return the error about a run that cannot be replayed."""
    return UserError(
        f"{folder} has no recorded calls to a model{f' ({notes[0]})' if notes else ''}: it cannot be replayed",
        "Name the folder of a run that was played through the model gateway.",
    )


class ReplayUpstream:
    """An ``Upstream`` that answers from the recording of another run.

    Args:
        recorded: The folder of the recorded run.
        root: The folder of this run. Where recorded answers name the recorded run's folder, they get this one.
        secrets: Values that were redacted from the recording, by name, as they are in this run.
        speed: Speed of the answers, as a multiple of the recorded one. ``inf`` does not wait at all.
        on_divergence: Called once, in the gateway's thread, when a call was not recorded.

    Raises:
        UserError: The folder has no recorded calls.
    """

    def __init__(
        self,
        recorded: Path,
        root: Path,
        secrets: Mapping[str, str],
        speed: float = 1.0,
        on_divergence: Callable[[], object] = lambda: None,
    ) -> None:
        self._recorded, self._speed, self._on_divergence = recorded, speed, on_divergence
        self._redactor = ExchangeRedactor(secrets)
        self._lock = threading.Lock()
        self.divergence: ReplayDiverged | None = None
        self.answered = 0
        self._recording = ModelRecording(recorded)
        # Bodies are made when they are needed: those of all calls together may be far larger than what they share.
        self._unused: dict[int, StoredExchange] = {}
        self._positions: dict[bytes, deque[int]] = {}
        self._last_answers: dict[bytes, StoredExchange] = {}
        self._matcher, self.total = CallMatcher([]), 0
        self._load(str(root.resolve()))
        if not self.total:
            raise nothing_recorded(recorded, self._recording.notes)

    def _load(self, root: str) -> None:
        """Read what the recorded calls asked."""
        self._names: dict[str, str] = {}
        for position, (stored, call) in enumerate(self._recording.entries()):
            if position == 0:
                recorded_root = self._recording.facts.root
                self._matcher = CallMatcher([recorded_root, root])
                self._names = {recorded_root: root} if recorded_root.count("/") > 1 else {}
            self._unused[position] = stored
            self._positions.setdefault(self._digest(call), deque()).append(position)
            self.total += call.api.is_conversation
            if self._matcher.characters_read > MAX_CHARACTERS:
                raise UserError(f"the recording of {self._recorded} is too large to be replayed", "Replay another run.")

    async def send(self, request: GatewayRequest) -> UpstreamAnswer:
        call = self._as_exchange(request)
        with self._lock:
            stored = self._take(call)
        if stored is None:
            return self._refusal(request.api)
        answer = self._recording.exchange(stored)
        await self._wait(max(0.0, answer.first_byte_s - answer.waited_s))
        if answer.status == 0:
            raise ConnectionResetError("the recorded call got no answer")
        if not FIRST_STATUS <= answer.status <= LAST_STATUS:
            return self._refusal(request.api)
        return UpstreamAnswer(answer.status, _answered_headers(answer.response_headers), self._body(answer))

    async def close(self) -> None:
        pass

    def check(self) -> None:
        """Raise the divergence if there was one."""
        if self.divergence:
            raise self.divergence

    def _as_exchange(self, request: GatewayRequest) -> Exchange:
        return self._redactor.exchange(
            Exchange(
                number=0, turn=0, api=request.api, method=request.method, target=request.target, request_headers={},
                request_body=_plain_body(request), status=0, response_headers={}, response_body=b"",
                is_complete=True, started_at=0.0, first_byte_s=0.0, duration_s=0.0,
            )
        )  # fmt: skip

    def _take(self, call: Exchange) -> StoredExchange | None:
        """Return the recorded answer to a call, and use it up; None if the replay has diverged."""
        key = self._digest(call)
        positions = self._positions.get(key)
        if positions and self.divergence is None:
            answer = self._last_answers[key] = self._unused.pop(positions.popleft())
            self.answered += call.api.is_conversation
            return answer
        if not call.api.is_conversation:  # lists of models and counts of tokens may be asked for at any time
            return self._last_answers.get(key)
        if self.divergence is None:
            self.divergence = self._diverged(call, is_repeated=key in self._last_answers)
            self._on_divergence()
        return None

    def _diverged(self, call: Exchange, is_repeated: bool) -> ReplayDiverged:
        asked = self._matcher.lines(call)
        nearest = None if is_repeated else self._nearest(call.api, asked)
        if is_repeated:
            reason, diff = "this client repeats a call more often than the recorded one", list[str]()
        elif nearest is None:
            reason, diff = "this client makes more calls than the recorded one", asked[-1:]
        else:
            reason = f"this client asks something else than recorded call {nearest.number}"
            diff = difference(self._matcher.lines(self._recording.exchange(nearest)), asked)
        return ReplayDiverged(self._recorded, self.answered, self.total, reason, diff)

    def _nearest(self, api: ModelApi, asked: list[str]) -> StoredExchange | None:
        """Return the recorded call that has the most lines in common with what was asked, of those that are unused."""
        unused = [stored for stored in self._unused.values() if stored.api == api]

        def likeness(stored: StoredExchange) -> tuple[int, int]:
            return common_lines(self._matcher.lines(self._recording.exchange(stored)), asked), -stored.number

        return max(unused, key=likeness, default=None)

    def _refusal(self, api: ModelApi) -> UpstreamAnswer:
        if not api.is_conversation:
            error = apis.error(api, 404, "EvoPolicyGym: this call is not in the recording")
        else:
            error = apis.error(api, REFUSED, f"EvoPolicyGym: {self.divergence or 'the recorded answer is none'}")
        return UpstreamAnswer(error.status, {"content-type": "application/json"}, _whole(error.body))

    async def _body(self, answer: Exchange) -> AsyncIterator[bytes]:
        body = rewrite_answer(answer.api, answer.response_body, self._names)
        is_stream = "event-stream" in _header(answer.response_headers, "content-type")
        pieces = PIECES if is_stream and self._speed < float("inf") else 1
        pause = max(0.0, answer.duration_s - answer.first_byte_s) / pieces
        size = -(-len(body) // pieces) or 1
        for start in range(0, len(body), size):
            yield body[start : start + size]
            await self._wait(pause)
        if not answer.is_complete:
            raise ConnectionResetError("the recorded answer was cut here")

    async def _wait(self, seconds: float) -> None:
        if seconds / self._speed > 0:
            await asyncio.sleep(min(seconds / self._speed, LONGEST_WAIT_S))

    def _digest(self, call: Exchange) -> bytes:
        return digest([call.api, *self._matcher.lines(call)])


def _answered_headers(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return recorded headers that may be sent: the author of a recording could have written anything."""
    sent = {
        name: NOT_IN_HEADERS.sub("?", value)[:MAX_HEADER]
        for name, value in islice(recorded.items(), MAX_HEADERS)
        if HEADER_NAME.fullmatch(name)
    }
    return {name: value for name, value in passed_on(sent).items() if name not in NOT_REPLAYED}


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name), "")


def _plain_body(request: GatewayRequest) -> bytes:
    return decoded(request.body, _header(request.headers, "content-encoding"))
