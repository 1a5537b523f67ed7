"""Copy what an agent prints to the run's folder: through a pipe, without its keys, and up to a limit.

The agent never gets an open file of the run: it could make it terabytes long, or unreadable. It gets one end of a pipe,
and the judge copies what comes out of the other.
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import re
import select
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from evopolicygym.errors import TEMPORARY

MIB: Final = 1 << 20
STDOUT_LIMIT: Final = 256 * MIB  # bytes kept of one turn
STDERR_LIMIT: Final = 16 * MIB
CHUNK: Final = 1 << 16
HELD_BYTES: Final = 4 * MIB  # of a transcript, while the disk is full
SHORTEST_SECRET: Final = 8  # shorter values are placeholders for servers without keys, and would match everywhere
PLAIN_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
log = logging.getLogger(__name__)


class AgentPipe(io.RawIOBase):
    """A pipe from the agent. ``end`` ends it for the reader even if some process still holds the other side."""

    def __init__(self) -> None:
        self._ours, self.agent_end = os.pipe()
        os.set_blocking(self._ours, False)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._remaining: int | None = None
        for descriptor in (self._ours, self._wake):
            self._poll.register(descriptor, select.POLLIN)

    def close_agent_end(self) -> None:
        """Close our copy of the agent's end. Call it once the agent has its own copy."""
        if self.agent_end >= 0:
            os.close(self.agent_end)
            self.agent_end = -1

    def end(self) -> None:
        """End the stream for the reader, after what is in the pipe now."""
        os.eventfd_write(self._wake, 1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.close_agent_end()
            os.close(self._ours)
            os.close(self._wake)
        super().close()

    def _next(self, most: int) -> bytes:
        while self._remaining is None:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._wake in ready:
                self._remaining = fcntl.fcntl(self._ours, fcntl.F_GETPIPE_SZ)
            elif (data := self._read(most)) is not None:
                return data
        data = self._read(min(most, self._remaining)) or b""
        self._remaining -= len(data)
        return data

    def _read(self, most: int) -> bytes | None:
        try:
            return os.read(self._ours, most)
        except BlockingIOError:
            return None


class Redactor:
    """Replaces the values of keys by their names in a stream: an agent may print its environment. No secret is written,
    not even one that is split between two chunks."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        secrets = {os.fsencode(value): os.fsencode(f"[{name}]") for name, value in keys.items()}
        self._names = {value: name for value, name in secrets.items() if len(value) >= SHORTEST_SECRET}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first))) if self._names else None
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the data that is safe to write, without an end that may be the beginning of a secret."""
        if self._pattern is None:
            return data
        data, clean, start = self._held + data, list[bytes](), 0
        unsure = self._beginnings(data)
        while True:
            keep = next((index for index in unsure if index >= start), len(data))
            match = self._pattern.search(data, start)
            if match is None or match.start() >= keep:
                self._held = data[keep:]
                return b"".join([*clean, data[start:keep]])
            clean += [data[start : match.start()], self._names[match[0]]]
            start = match.end()

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._pattern.sub(lambda match: self._names[match[0]], held) if self._pattern else held

    def text(self, text: str) -> str:
        """Return a complete text redacted; from any thread. The text may have been cut in the middle of a secret: an
        end that is a long beginning of one is replaced, too."""
        if self._pattern is None:
            return text
        data = text.encode(errors="surrogatepass")
        data = self._pattern.sub(lambda match: self._names[match[0]], data)
        start = next(iter(self._beginnings(data)), len(data))
        if len(data) - start >= SHORTEST_SECRET:
            data = data[:start] + next(name for value, name in self._names.items() if value.startswith(data[start:]))
        return data.decode(errors="surrogatepass")

    def _beginnings(self, data: bytes) -> list[int]:
        """Return the positions from which ``data`` ends with an incomplete secret, in order."""
        lengths = {
            length
            for secret in self._names
            for length in range(1, min(len(secret) - 1, len(data)) + 1)
            if data.endswith(secret[:length])
        }
        return sorted(len(data) - length for length in lengths)


class Transcript:
    """A file of limited length. What exceeds it is counted and left out. What does not fit on the disk is held, the
    newest of it, and written as soon as there is space: an agent may fill the disk and free it again."""

    def __init__(self, path: Path, keys: Mapping[str, str], limit: int, append: bool = False) -> None:
        self._redactor, self._limit = Redactor(keys), limit
        self._file = _opened(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC))
        self._size = os.fstat(self._file).st_size if self._file is not None else 0  # with what is held
        self._held = bytearray()
        self.left_out = 0

    def write(self, data: bytes) -> None:
        """Write without a buffer: if this process is killed, the file has what was written."""
        self._keep(self._redactor.feed(data))

    def close(self) -> None:
        self._keep(self._redactor.rest())
        self.left_out += len(self._held)
        self._held.clear()
        if self._file is None:
            return
        if self.left_out:
            note = f"\n[evopolicygym: {self.left_out} bytes were left out; {self._limit} are kept at most]\n"
            self._append(note.encode())
        os.close(self._file)
        self._file = None

    def _keep(self, data: bytes) -> None:
        kept = data[: max(0, self._limit - self._size)]
        self._held += kept
        del self._held[: self._append(self._held)]
        too_old = max(0, len(self._held) - HELD_BYTES)
        del self._held[:too_old]
        self._size += len(kept) - too_old
        self.left_out += len(data) - len(kept) + too_old

    def _append(self, data: bytes | bytearray) -> int:
        """Return how many bytes were written."""
        written = 0
        try:
            while written < len(data) and self._file is not None:
                written += os.write(self._file, memoryview(data)[written:])
        except OSError as error:
            log.debug("the transcript is incomplete: %s", error)
        return written


class StreamCopy:
    """One output stream of the agent, and the thread that copies it. ``bytes_read`` counts all bytes, kept or not."""

    def __init__(self, path: Path, keys: Mapping[str, str], limit: int, append: bool = False) -> None:
        self.pipe, self.bytes_read = AgentPipe(), 0
        self._transcript = Transcript(path, keys, limit, append)
        self._thread = threading.Thread(target=self._copy, name=f"copy {path.name}", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        while data := self.pipe.read(CHUNK):
            self.bytes_read += len(data)
            self._transcript.write(data)

    def close(self) -> None:
        """End the copy, once no process of the agent is left."""
        self.pipe.close_agent_end()
        self.pipe.end()
        self._thread.join()
        self._transcript.close()
        self.pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_plain(path: Path) -> IO[bytes]:
    """Open a file of the run for reading; an empty one if it is missing. It follows no link and waits for no pipe.
    Raises OSError in a shortage."""
    descriptor = _opened(path, os.O_RDONLY)
    return io.BytesIO() if descriptor is None else open(descriptor, "rb")


def _opened(path: Path, flags: int) -> int | None:
    try:
        descriptor = os.open(path, flags | PLAIN_FLAGS, 0o644)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in TEMPORARY:
            raise
        log.warning("%s cannot be opened: %s", path.name, error.strerror)
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
