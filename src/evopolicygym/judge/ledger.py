"""The ledger: the append-only record of a run. Everything else about a run is derived from it.

One event per line, with the hash of the line before, on disk before its effect. A crash can leave a torn last line: it
had no effect yet and is dropped. Any other line that does not fit is corruption.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from evopolicygym.errors import Fault, UserError
from evopolicygym.files import read_file
from evopolicygym.judge.events import KINDS, Event, kind_of
from evopolicygym.judge.failpoints import armed, failpoint

START: Final = "0" * 64
MAX_BYTES: Final = 128 << 20
MAX_LINES: Final = 250_000  # a charge and a verdict for each episode of the largest budget, and the rest
MESSAGE_CHARACTERS: Final = 300  # kept of a parser's message


class LedgerCorrupt(UserError):
    """A line of the ledger is invalid, or was altered."""


class LedgerUnwritable(Fault):
    """A line could not be written. The ledger is unchanged."""


@dataclass(frozen=True)
class LedgerLine:
    """One line. ``previous`` is the hash of the line before; sequence numbers count from 0."""

    sequence: int
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    kind: str
    data: dict[str, Any]
    previous: str

    def event(self) -> Event:
        event: Event = msgspec.convert(self.data, KINDS[self.kind])
        return event


def line_hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def read(path: Path) -> Iterator[tuple[LedgerLine, bytes]]:
    """Yield all complete lines with their bytes, checking the hash chain. Raises LedgerCorrupt and UserError."""
    previous = START
    try:
        *whole, _torn = read_file(path.parent, path.name, MAX_BYTES).split(b"\n")
    except OSError as error:
        raise UserError(f"cannot read the ledger {path}: {error.strerror}") from error
    if len(whole) > MAX_LINES:
        raise LedgerCorrupt(f"{path} has {len(whole)} lines; no run writes more than {MAX_LINES}")
    for number, raw in enumerate(whole):
        line = _parse(raw, path, number)
        if (line.sequence, line.previous) != (number, previous):
            raise LedgerCorrupt(f"{path}, line {number + 1}: the chain is broken: it or the line before was altered")
        previous = line_hash(raw)
        yield line, raw


def _parse(raw: bytes, path: Path, number: int) -> LedgerLine:
    try:
        line = msgspec.json.decode(raw, type=LedgerLine)
        line.event()
        return line
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError) as error:
        text = str(error)[:MESSAGE_CHARACTERS]
        raise LedgerCorrupt(f"{path}, line {number + 1} is not a line of a ledger: {text}") from error


def _readable(line: LedgerLine, path: Path) -> bytes:
    """Encode a line and check that it can be read back (JSON has no NaN): an unreadable line would end the run."""
    raw = msgspec.json.encode(line)
    try:
        _parse(raw, path, line.sequence)
    except LedgerCorrupt as error:
        raise LedgerUnwritable(f"a line that could not be read back was not written: {error}") from error
    return raw


def _encodable(value: Any) -> Any:
    """Escape text that UTF-8 cannot encode, such as half of an emoji in an agent's reply or a file name of other bytes.
    All text of a ledger passes here, so none of it can make a line unwritable."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(entry) for key, entry in value.items()}
    return [_encodable(entry) for entry in value] if isinstance(value, list | tuple) else value


class Ledger:
    """The single writer of a run's ledger; the lock of the run ensures that there is only one."""

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path, self._now = path, now
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._length = self._end = 0
        self._lost = ""
        self.head = START

    def recover(self) -> Iterator[LedgerLine]:
        """Yield the existing lines, then cut off a torn end. Call it before appending."""
        for line, raw in read(self.path):
            self._wrote(raw)
            yield line
        os.ftruncate(self._file, self._end)

    def append(self, event: Event) -> LedgerLine:
        """Write an event; it is on disk when this returns. Raises LedgerUnwritable, with the ledger unchanged."""
        data = _encodable(msgspec.to_builtins(event))
        line = LedgerLine(self._length, self._now(), kind_of(event), data, self.head)
        raw = _readable(line, self.path)
        if self._lost:
            raise LedgerUnwritable(self._lost)
        if self._length >= MAX_LINES or self._end + len(raw) >= MAX_BYTES:
            raise LedgerUnwritable(f"the ledger {self.path} has reached its maximum length; finish the run")
        try:
            self._write(raw + b"\n")
        except OSError as error:
            text = f"cannot write to the ledger {self.path}: {error.strerror}"
            self._undo_write(text)
            raise LedgerUnwritable(f"{text}; nothing was written, and the run can continue from there") from error
        self._wrote(raw)
        return line

    def close(self) -> None:
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        if armed("ledger-line-torn"):
            os.pwrite(self._file, data[: len(data) // 2], self._end)
            os.kill(os.getpid(), 9)
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], self._end + written)
        failpoint("ledger-line-unsynced")
        os.fsync(self._file)

    def _undo_write(self, text: str) -> None:
        """Cut off a partial line. If that fails, no further line may follow, because the rest would break the chain."""
        try:
            os.ftruncate(self._file, self._end)
        except OSError as error:
            self._lost = f"{text}, nor remove the partial line: {error.strerror}; restart the server to continue"
            raise LedgerUnwritable(self._lost) from error

    def _wrote(self, raw: bytes) -> None:
        self.head, self._end, self._length = line_hash(raw), self._end + len(raw) + 1, self._length + 1
