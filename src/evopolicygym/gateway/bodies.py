"""Bodies of calls and answers: decompressed as they pass, with a limit on what comes out and on what is held."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from typing import Final

PIECE: Final = 1 << 20
MAX_DECODED: Final = 64 << 20  # bytes of one body that are read for metering and recording; all of it is carried
GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class BodyDecoder:
    """Decodes one body. ``is_readable`` is False from where the body is damaged, too long or of an unknown encoding;
    nothing is decoded then."""

    def __init__(self, encoding: str, limit: int = MAX_DECODED) -> None:
        encoding = encoding.strip().lower()
        self._inflate = zlib.decompressobj(GZIP_OR_ZLIB) if encoding in ("gzip", "x-gzip", "deflate") else None
        self.is_readable = self._inflate is not None or encoding in ("", "identity")
        self._room = limit

    @property
    def is_compressed(self) -> bool:
        """Whether the body is compressed in a way that can be decoded."""
        return self._inflate is not None

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data and self.is_readable:
            piece, data = self._next(data)
            if len(piece) > self._room:
                self.is_readable, piece = False, piece[: self._room]
            self._room -= len(piece)
            yield piece

    def _next(self, data: bytes) -> tuple[bytes, bytes]:
        if self._inflate is None:
            return data, b""
        try:
            return self._inflate.decompress(data, PIECE), self._inflate.unconsumed_tail
        except zlib.error:
            self.is_readable = False
            return b"", b""


def decoded(body: bytes, encoding: str, limit: int = MAX_DECODED) -> bytes:
    """Return a whole body decompressed, up to the limit; as it is if its encoding is unknown."""
    decoder = BodyDecoder(encoding, limit)
    return b"".join(decoder.decode(body)) if decoder.is_readable else body[:limit]


class ByteBudget:
    """Bytes that many calls may hold together; from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used, self._lock = limit, 0, threading.Lock()

    def take(self, size: int) -> bool:
        """Take bytes, which `give` must return; False if there are not so many."""
        with self._lock:
            if self._used + size > self._limit:
                return False
            self._used += size
            return True

    def give(self, size: int) -> None:
        with self._lock:
            self._used -= size


class BodyShare:
    """The share of one call in the bytes of all bodies."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget, self._size = budget, 0

    def take(self, size: int) -> bool:
        is_taken = self._budget.take(size)
        self._size += size * is_taken
        return is_taken

    def give_back(self) -> None:
        self._budget.give(self._size)
        self._size = 0
