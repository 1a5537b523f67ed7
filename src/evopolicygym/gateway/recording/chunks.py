"""Cuts bodies into chunks that are stored once: a conversation grows by its last messages.

Each request of a conversation repeats everything before it. Bodies are cut where one object of a JSON list ends and the
next begins, which is between messages and between tools in every API, and where a list ends; long texts are cut at
empty lines. Cuts depend on the bytes around them alone, so that equal messages become equal chunks wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final

# Two patterns are twice as fast as one with both, because each begins with one certain byte.
BETWEEN_OBJECTS: Final = re.compile(rb'\}\s{0,8},\s{0,8}(?=\{\s{0,8}")')
AFTER_LIST: Final = re.compile(rb'\](?=\s{0,8},\s{0,8}")')
EMPTY_LINE: Final = re.compile(rb"\\n\\n(?!\\n)")
LONG: Final = 4096  # bytes of a chunk that is cut at empty lines
MOST: Final = 50_000  # chunks of one body; more would cost more than they save

Ranges = list[int]  # start and count of consecutive chunks; each start is relative to the end of the range before


def cut(body: bytes) -> list[bytes]:
    """Return the chunks of a body; joined, they are the body."""
    chunks = [part for piece in _split(body, BETWEEN_OBJECTS, AFTER_LIST) for part in _cut_long(piece)]
    return chunks if len(chunks) <= MOST else [body]


def _cut_long(piece: bytes) -> list[bytes]:
    return [piece] if len(piece) <= LONG else _split(piece, EMPTY_LINE)


def _split(data: bytes, *patterns: re.Pattern[bytes]) -> list[bytes]:
    cuts = sorted([0, *(match.end() for pattern in patterns for match in pattern.finditer(data)), len(data)])
    return [data[start:end] for start, end in pairwise(cuts) if end > start]


class ChunkIndex:
    """Numbers chunks by their content. New chunks get the next numbers."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.next_number = 0

    def know(self, number: int, chunk: bytes) -> None:
        """Take up a chunk that is stored already."""
        self._numbers.setdefault(_digest(chunk), number)
        self.next_number = max(self.next_number, number + 1)

    def number(self, chunks: Iterable[bytes], new: list[bytes]) -> Ranges:
        """Return the numbers of chunks, and append those that are not stored yet to ``new``."""
        numbers = []
        for chunk in chunks:
            digest = _digest(chunk)
            number = self._numbers.get(digest)
            if number is None:
                number = self._numbers[digest] = self.next_number
                self.next_number += 1
                new.append(chunk)
            numbers.append(number)
        return to_ranges(numbers)

    def forget(self, first: int) -> None:
        """Forget the chunks from number ``first`` on, which could not be stored."""
        self._numbers = {digest: number for digest, number in self._numbers.items() if number < first}
        self.next_number = first


def to_ranges(numbers: Sequence[int]) -> Ranges:
    ranges: Ranges = []
    following = 0
    for number in numbers:
        if ranges and number == following:
            ranges[-1] += 1
        else:
            ranges += [number - following, 1]
        following = number + 1
    return ranges


def from_ranges(ranges: Ranges, at_most: int) -> Iterator[int]:
    """Yield the numbers. Raises ValueError for more than ``at_most``, and for an incomplete range."""
    following = 0
    if len(ranges) % 2:
        raise ValueError("a range without an end")
    for start, count in zip(ranges[::2], ranges[1::2], strict=True):
        at_most -= count
        if count < 0 or at_most < 0:
            raise ValueError("too many chunks")
        following += start
        yield from range(following, following + count)
        following += count


def _digest(chunk: bytes) -> bytes:
    return blake2b(chunk, digest_size=16).digest()
