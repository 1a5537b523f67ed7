"""Reads recorded exchanges of a run, which may come from a stranger.

Nothing in the folder is trusted: no link is followed, every size and count is bounded, and what is damaged becomes a
note, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from evopolicygym.agents.usage import Usage
from evopolicygym.files import open_file
from evopolicygym.gateway.exchange import Exchange, ModelApi
from evopolicygym.gateway.frames import frames_from, read_frames
from evopolicygym.gateway.recording.chunks import Ranges, from_ranges
from evopolicygym.run_paths import RECORDING

MAX_FILE: Final = 4 << 30
MAX_CHUNKS: Final = 1_000_000
MAX_CHUNK_BYTES: Final = 512 << 20  # of all chunks, which are kept in memory
MAX_BODY: Final = 128 << 20
MAX_BODIES: Final = 2 << 30  # of all bodies together: few chunks can make endless bodies
CHUNK_COST: Final = 256  # bytes that a chunk counts beside its own: chunks may be empty
MAX_HTTP_HEADERS: Final = 1 << 20
MAX_HEADER: Final = 8 << 20
MAX_ALL_HEADERS: Final = 128 << 20
MAX_ROOT: Final = 4096
MAX_EXCHANGES: Final = 200_000
MAX_PIECES: Final = 2_000_000  # lists, tables and lines of one body: each takes up to 500 bytes in memory
MAX_HEAD_PIECES: Final = 1000  # lists and tables of the description of one call, which a replay keeps of all calls
MAX_NOTES: Final = 50

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]  # times stay within the calendar
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class RecordingFacts(msgspec.Struct, tag="recording", tag_field="kind", frozen=True):
    """Description of the recorded run. ``root``: the folder where it was played, which its texts may name."""

    root: str = ""
    version: str = ""


class StoredExchange(msgspec.Struct, tag="exchange", tag_field="kind", frozen=True, omit_defaults=True):
    """One exchange on disk. Headers and bodies are numbers of chunks; those that are new follow this object: the first
    has the number ``first``, and ``sizes`` are their lengths."""

    number: Count
    turn: Count
    api: str
    method: str
    target: str
    request_headers: Ranges
    request_body: Ranges
    status: Annotated[int, msgspec.Meta(ge=0, le=999)]
    response_headers: Ranges
    response_body: Ranges
    is_complete: bool
    started_at: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    first_byte_s: Seconds
    duration_s: Seconds
    first: Count
    sizes: list[Count]
    attempts: Count = 1
    waited_s: Seconds = 0.0
    model: str | None = None
    usage: dict[str, Any] | None = None


Stored = RecordingFacts | StoredExchange
DECODER: Final = msgspec.json.Decoder(Stored)
APIS: Final = frozenset(map(str, ModelApi))
HEADERS: Final = msgspec.json.Decoder(dict[str, str])


class ModelRecording:
    """The recorded exchanges of a run folder, in order. Iterating reads the file; ``notes`` then says what is missing.
    ``facts`` are known after the first exchange."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self.facts = RecordingFacts()
        self.notes: list[str] = []
        self.chunks: dict[int, bytes] = {}
        self._chunk_bytes = self._header_bytes = self._joined_bytes = 0
        self._position = self._added = 0

    @property
    def exists(self) -> bool:
        try:
            with open_file(self._folder, RECORDING, MAX_FILE):
                return True
        except OSError:
            return False

    def __iter__(self) -> Iterator[Exchange]:
        return (exchange for _, exchange in self.entries())

    def entries(self) -> Iterator[tuple[StoredExchange, Exchange]]:
        """Yield exchanges with what they are made of, from which `exchange` makes them again."""
        self.notes, self.chunks = [], {}
        self._chunk_bytes = self._header_bytes = self._joined_bytes = 0
        last = 0
        for count, stored in enumerate(self.stored()):
            exchange = self.exchange(stored)
            if count >= MAX_EXCHANGES or self._joined_bytes > MAX_BODIES:
                self._note("the recording is too large; the rest was not read")
                return
            if exchange.number > last + 1:
                self._note(f"calls {last + 1} to {exchange.number - 1} are not recorded")
            last = max(last, exchange.number)
            yield stored, exchange

    def added(self) -> Iterator[Exchange]:
        """Yield the exchanges since the last call of this method, of a recording that may be growing. An incomplete
        one at the end is left for the next call. Not to be mixed with iterating."""
        try:
            with open_file(self._folder, RECORDING, MAX_FILE) as file:
                for data, position in frames_from(file, lambda _: None, self._position):
                    self._position = position
                    stored = self._read(data)
                    if stored and self._added < MAX_EXCHANGES and self._joined_bytes <= MAX_BODIES:
                        self._added += 1
                        yield self.exchange(stored)
        except OSError:  # not there yet, or no plain file
            return

    def stored(self) -> Iterator[StoredExchange]:
        """Yield exchanges as they are stored, after their new chunks were taken up."""
        try:
            with open_file(self._folder, RECORDING, MAX_FILE) as file:
                for data in read_frames(file, self._note):
                    if stored := self._read(data):
                        yield stored
        except OSError as error:
            self._note(f"the recording cannot be read: {error.strerror}")

    def _read(self, data: bytes) -> StoredExchange | None:
        end = data.find(b"\n", 0, MAX_HEADER)
        self._header_bytes += max(end, 0)
        try:
            if self._header_bytes > MAX_ALL_HEADERS:
                raise ValueError("the recording is too large")
            if data.count(b"[", 0, max(end, 0)) + data.count(b"{", 0, max(end, 0)) > MAX_HEAD_PIECES:
                raise ValueError("its description has too many parts")
            head: Stored = DECODER.decode(data[: max(end, 0)])
            if isinstance(head, RecordingFacts):
                self.facts = head if len(head.root) <= MAX_ROOT else RecordingFacts(version=head.version)
                return None
            self._take_chunks(head, memoryview(data)[end + 1 :])
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            self._note(f"a call cannot be read: {error}")
            return None
        return head

    def _take_chunks(self, head: StoredExchange, data: memoryview) -> None:
        if sum(head.sizes) != len(data):
            raise ValueError("its chunks do not have their sizes")
        self._chunk_bytes += len(data)
        if self._chunk_bytes > MAX_CHUNK_BYTES or len(self.chunks) + len(head.sizes) > MAX_CHUNKS:
            raise ValueError("the recording is too large")
        start = 0
        for number, size in enumerate(head.sizes, head.first):
            self.chunks[number] = bytes(data[start : start + size])
            start += size

    def exchange(self, stored: StoredExchange) -> Exchange:
        parts = {
            name: self._joined(stored, name)
            for name in ("request_headers", "request_body", "response_headers", "response_body")
        }
        return Exchange(
            number=stored.number,
            turn=stored.turn,
            api=ModelApi(stored.api) if stored.api in APIS else ModelApi.OTHER,
            method=stored.method,
            target=stored.target,
            request_headers=self._headers(stored, parts["request_headers"]),
            request_body=parts["request_body"],
            status=stored.status,
            response_headers=self._headers(stored, parts["response_headers"]),
            response_body=parts["response_body"],
            is_complete=stored.is_complete,
            started_at=stored.started_at,
            first_byte_s=stored.first_byte_s,
            duration_s=stored.duration_s,
            attempts=stored.attempts,
            waited_s=stored.waited_s,
            model=stored.model,
            usage=_usage(stored.usage),
        )

    def _joined(self, stored: StoredExchange, name: str) -> bytes:
        """Return a part of an exchange; empty, with a note, if some of it is lost."""
        chunks: list[bytes] = []
        remaining = size = MAX_HTTP_HEADERS if name.endswith("headers") else MAX_BODY
        try:
            for number in from_ranges(getattr(stored, name), size // CHUNK_COST):
                chunks.append(self.chunks[number])
                remaining -= len(chunks[-1]) + CHUNK_COST
                if remaining < 0:
                    raise ValueError
        except (KeyError, ValueError):
            self._joined_bytes += size - remaining
            self._note(f"call {stored.number}: its {name.replace('_', ' ')} is lost")
            return b""
        self._joined_bytes += size - remaining
        joined = b"".join(chunks)
        if joined.count(b"[") + joined.count(b"{") + joined.count(b"\n") > MAX_PIECES:
            self._note(f"call {stored.number}: its {name.replace('_', ' ')} has too many parts, and is left out")
            return b""
        return joined

    def _headers(self, stored: StoredExchange, data: bytes) -> Mapping[str, str]:
        try:
            return HEADERS.decode(data) if data else {}
        except (ValueError, RecursionError):
            self._note(f"call {stored.number}: its headers cannot be read")
            return {}

    def _note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)


def _usage(values: dict[str, Any] | None) -> Usage | None:
    """Return usage as recorded; None for anything that is none."""
    try:
        return msgspec.convert(values, Usage) if values else None
    except ValueError:
        return None


def usage_values(usage: Usage | None) -> dict[str, Any] | None:
    """Return usage as it is recorded: without what is unknown."""
    return None if usage is None else {name: value for name, value in asdict(usage).items() if value is not None}
