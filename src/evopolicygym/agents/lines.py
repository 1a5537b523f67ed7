"""Lines of files that an agent wrote: as many as a judge has time for, and none that would fill its memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

LONGEST_LINE: Final = 8 << 20  # characters; parsed as JSON it can take twenty times as much


@dataclass
class ReadingLimit:
    """What may still be read. A transcript of a client's longest turns is far below it."""

    lines: int = 1_000_000
    characters: int = 512 << 20
    entries: int = 100_000  # of folders that are searched for files
    files: int = 1000


def lines(file: IO[str], limit: ReadingLimit) -> Iterator[str]:
    """Those that are not too long; the others are passed over."""
    is_whole = True
    while limit.lines > 0 and limit.characters > 0 and (line := file.readline(LONGEST_LINE)):
        began, is_whole = is_whole, line.endswith("\n") or len(line) < LONGEST_LINE
        limit.characters -= len(line)
        limit.lines -= 1
        if began and is_whole:
            yield line
