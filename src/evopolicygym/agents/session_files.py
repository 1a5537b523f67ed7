"""What clients leave in their HOME about a session. The agent can write there, so nothing is taken on trust: no links
are followed, no pipe is waited for, and what is too much is not read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from evopolicygym.agents import picks
from evopolicygym.agents.lines import ReadingLimit, lines
from evopolicygym.agents.templates import fill

LARGEST: Final = 256 << 20
LARGEST_JSON: Final = 32 << 20  # of a file that is one event: parsed, it takes up to twenty times as much
DEEPEST: Final = 16  # folders below which `**` does not look
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def events(home: Path, pattern: str, session: str, limit: ReadingLimit) -> Iterator[Any]:
    """One for each file that ends in `.json`, and for each line of the others. The pattern may name `${session}`."""
    filled = fill(pattern, {"session": session} if session else {})
    parts = PurePosixPath(filled or "/").parts
    if ".." in parts or parts[0] == "/":
        return
    with _opened(str(home), os.O_DIRECTORY) as folder:
        for file in _files(folder, parts, DEEPEST, limit):
            yield from _events_of(file, parts[-1].endswith(".json"), limit)


def _events_of(file: IO[str], is_one: bool, limit: ReadingLimit) -> Iterator[Any]:
    texts = _whole(file, limit) if is_one else lines(file, limit)
    yield from (event for text in texts if (event := picks.parse(text)) is not None)


def _whole(file: IO[str], limit: ReadingLimit) -> Iterator[str]:
    text = file.read(max(0, min(LARGEST_JSON, limit.characters)))
    limit.characters -= len(text)
    yield text


def _files(folder: int | None, parts: tuple[str, ...], depth: int, limit: ReadingLimit) -> Iterator[IO[str]]:
    """Step by step and by descriptor, so that no link leads elsewhere."""
    if folder is None:
        return
    name, *rest = parts
    if name == "**":
        if rest:
            yield from _files(folder, tuple(rest), depth, limit)
        name, rest, depth = "*", list(parts), depth - 1
    if depth < 0:
        return
    for entry in _names(folder, name, limit):
        if rest:
            with _opened(entry, os.O_DIRECTORY, folder) as inner:
                yield from _files(inner, tuple(rest), depth, limit)
        else:
            yield from _file(folder, entry, limit)


def _names(folder: int, pattern: str, limit: ReadingLimit) -> list[str]:
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, limit.entries)]
    except OSError:
        return []
    limit.entries -= len(names)
    return sorted(name for name in names if fnmatchcase(name, pattern))


def _file(folder: int, name: str, limit: ReadingLimit) -> Iterator[IO[str]]:
    """Nothing at all for what is not a file of a sensible size."""
    limit.files -= 1
    with _opened(name, 0, folder) as descriptor:
        if descriptor is None or limit.files < 0:
            return
        facts = os.fstat(descriptor)
        largest = LARGEST_JSON if name.endswith(".json") else LARGEST
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= largest:
            with open(descriptor, encoding="utf-8", errors="replace", closefd=False) as file:
                yield file


@contextmanager
def _opened(name: str, flags: int, folder: int | None = None) -> Iterator[int | None]:
    try:
        descriptor = os.open(name, READ | flags, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
