"""Records every exchange of a run: append-only, compressed, each message once, without keys and credentials."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from evopolicygym import __version__
from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.frames import frame
from evopolicygym.gateway.recording.chunks import ChunkIndex, cut
from evopolicygym.gateway.recording.reader import ModelRecording, RecordingFacts, StoredExchange, usage_values
from evopolicygym.gateway.redaction import ExchangeRedactor
from evopolicygym.run_paths import RECORDING

LIMIT: Final = 2 << 30  # bytes of a recording
ENCODER: Final = msgspec.json.Encoder()
log = logging.getLogger(__name__)


class ExchangeStore:
    """An ``ExchangeSink`` that appends to the recording of a run folder, and continues one that is there.

    A frame is written for each exchange, with one call: a killed process loses at most the exchange that it was
    writing. Files are not synced; only a power loss can take more. When the disk is full or the recording has reached
    its limit, recording ends, ``trouble`` says why, and the run goes on.

    Args:
        run_folder: The folder of the run.
        secrets: Values that must not reach the disk, by the name that takes their place.
        limit: Bytes that the recording may have.
    """

    def __init__(self, run_folder: Path, secrets: Mapping[str, str], limit: int = LIMIT) -> None:
        self.trouble = ""
        self._redactor, self._limit = ExchangeRedactor(secrets), limit
        self._index = ChunkIndex()
        self._file = -1
        try:
            self._size = self._open(run_folder)
            self._write(ENCODER.encode(RecordingFacts(str(run_folder.resolve()), __version__)) + b"\n")
        except OSError as error:
            self._stop(error.strerror or str(error))

    def append(self, exchange: Exchange) -> None:
        """Record an exchange. Never raises: a call that cannot be recorded must not fail."""
        if self._file < 0:
            return
        first = self._index.next_number
        try:
            self._write(self._encoded(self._redactor.exchange(exchange)))
        except OSError as error:
            self._index.forget(first)
            self._stop(f"{error.strerror or error}; it ends before call {exchange.number}")
        except ValueError as error:  # too large for a frame, or text that is no UTF-8
            self._index.forget(first)
            self.leave_out(exchange.number, str(error))

    def leave_out(self, number: int, reason: str) -> None:
        """Take note of a call that is not recorded; from any thread."""
        log.warning("call %d is not recorded: %s", number, reason)
        self.trouble = self.trouble or f"call {number} to the model is not recorded: {reason}"

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self, run_folder: Path) -> int:
        path = run_folder / RECORDING
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier = ModelRecording(run_folder)
        for _ in earlier.stored() if path.exists() else ():
            pass
        for number, chunk in earlier.chunks.items():
            self._index.know(number, chunk)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        return os.fstat(self._file).st_size

    def _encoded(self, exchange: Exchange) -> bytes:
        first, new = self._index.next_number, list[bytes]()
        stored = StoredExchange(
            number=exchange.number,
            turn=exchange.turn,
            api=exchange.api,
            method=exchange.method,
            target=_escaped(exchange.target),
            request_headers=self._index.number([_encoded_headers(exchange.request_headers)], new),
            request_body=self._index.number(cut(exchange.request_body), new),
            status=exchange.status,
            response_headers=self._index.number([_encoded_headers(exchange.response_headers)], new),
            response_body=self._index.number(cut(exchange.response_body), new),
            is_complete=exchange.is_complete,
            started_at=exchange.started_at,
            first_byte_s=exchange.first_byte_s,
            duration_s=exchange.duration_s,
            first=first,
            sizes=[len(chunk) for chunk in new],
            attempts=exchange.attempts,
            waited_s=exchange.waited_s,
            model=_escaped(exchange.model) if exchange.model else exchange.model,
            usage=usage_values(exchange.usage),
        )
        return b"".join([ENCODER.encode(stored), b"\n", *new])

    def _write(self, data: bytes) -> None:
        framed = frame(data)
        if self._size + len(framed) > self._limit:
            raise OSError(f"the recording has reached its limit of {self._limit >> 20} MiB")
        written = os.write(self._file, framed)
        if written < len(framed):  # the disk is nearly full: take the torn frame back
            os.ftruncate(self._file, self._size)
            raise OSError("the disk is full")
        self._size += written

    def _stop(self, reason: str) -> None:
        self.trouble = f"the model's calls are not recorded any more: {reason}"
        log.warning("%s", self.trouble)
        self.close()


def _encoded_headers(headers: Mapping[str, str]) -> bytes:
    return ENCODER.encode({_escaped(name): _escaped(value) for name, value in headers.items()})


def _escaped(text: str) -> str:
    """Return text that can be written as UTF-8: the bytes of a header need not be."""
    return text.encode(errors="backslashreplace").decode()
