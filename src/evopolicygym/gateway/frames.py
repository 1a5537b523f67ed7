"""Frames of an append-only file that survive kills and damage.

A frame is a mark, the length and the checksum of its data, and the data, compressed. A process that is killed leaves at
most one torn frame; whoever appends next writes behind it, and a reader finds the next mark. The file may come from a
stranger: what is decompressed, and how much damage is searched through, is bounded.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

MARK: Final = b"\xf5EPX"
HEAD: Final = struct.Struct("<4sII")
LEVEL: Final = 6
MAX_STORED: Final = 64 << 20  # bytes of one frame on disk
MAX_DATA: Final = 160 << 20  # bytes of one frame, decompressed
MAX_ALL_DATA: Final = 1 << 30  # bytes of all frames, decompressed
MAX_DAMAGES: Final = 32  # places at which the search for the next frame begins anew
SEARCHED: Final = 1 << 20  # bytes that are searched for the next mark at a time

Note = Callable[[str], None]


def frame(data: bytes) -> bytes:
    """Return data as one frame. Raises ValueError if it is too large."""
    stored = zlib.compress(data, LEVEL)
    if len(data) > MAX_DATA or len(stored) > MAX_STORED:
        raise ValueError(f"{len(data)} bytes are too many for one frame")
    return HEAD.pack(MARK, len(stored), zlib.crc32(stored)) + stored


def read_frames(file: BinaryIO, note: Note) -> Iterator[bytes]:
    """Yield the data of all undamaged frames. ``note`` is called with a text about each damaged part."""
    return (data for data, _ in frames_from(file, note, 0))


def frames_from(file: BinaryIO, note: Note, position: int) -> Iterator[tuple[bytes, int]]:
    """Yield the data of all undamaged frames from a position on, each with the position behind it."""
    damages = total = 0
    while head := _read_at(file, position, HEAD.size):
        stored = _stored(file, head, position)
        data = None if stored is None else _decompressed(stored)
        if data is not None and stored is not None:
            total += len(data)
            if total > MAX_ALL_DATA:
                note("the recording is too large; the rest was not read")
                return
            position += HEAD.size + len(stored)
            yield data, position
            continue
        following = _find_mark(file, position + 1)
        if following is None:
            note(f"the last {_size(file) - position} bytes of the recording are incomplete")
            return
        damages += 1
        if damages > MAX_DAMAGES:
            note(f"the recording is damaged in more than {MAX_DAMAGES} places; the rest was not read")
            return
        note(f"{following - position} bytes of the recording are damaged")
        position = following


def _stored(file: BinaryIO, head: bytes, position: int) -> bytes | None:
    if len(head) < HEAD.size:
        return None
    mark, length, checksum = HEAD.unpack(head)
    if mark != MARK or length > MAX_STORED:
        return None
    stored = _read_at(file, position + HEAD.size, length)
    return stored if len(stored) == length and zlib.crc32(stored) == checksum else None


def _decompressed(stored: bytes) -> bytes | None:
    decompressor = zlib.decompressobj()
    try:
        data = decompressor.decompress(stored, MAX_DATA)
    except zlib.error:
        return None
    return data if decompressor.eof else None


def _find_mark(file: BinaryIO, position: int) -> int | None:
    while block := _read_at(file, position, SEARCHED):
        if (offset := block.find(MARK)) >= 0:
            return position + offset
        if len(block) < SEARCHED:
            return None
        position += SEARCHED - len(MARK) + 1
    return None


def _read_at(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)


def _size(file: BinaryIO) -> int:
    return file.seek(0, 2)
