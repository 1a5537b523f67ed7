"""Bounded reading of the JSON events that clients print and leave in their HOME, and values at paths of an event.

A path is dotted (`usage.input_tokens`); `*` stands for every entry of a list or table. The agent can write to all of
these files, so nothing is trusted: no links are followed, no pipe is waited for, and too much data is not read.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from evopolicygym.agents.templates import fill
from evopolicygym.errors import SCARCE

Scalar = str | int | bool
LONGEST_TEXT: Final = 20_000  # characters kept of a text's beginning, and of its end


def values_at(event: Any, path: str) -> list[Any]:
    """Return all values at a path; none if it does not exist or is null."""
    values = [event]
    for step in path.split(".") if path else ():
        values = [entry for value in values for entry in _entries(value, step)]
    return [value for value in values if value is not None]


def _entries(value: Any, step: str) -> Iterator[Any]:
    if step == "*":
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(value, dict) and step in value:
        yield value[step]


def event_matches(event: Any, where: Mapping[str, Scalar]) -> bool:
    return all(any(_same(value, wanted) for value in values_at(event, path)) for path, wanted in where.items())


def _same(value: Any, wanted: Scalar) -> bool:
    return type(value) is type(wanted) and bool(value == wanted)


def text_at(event: Any, path: str) -> str:
    """Return the values at a path as one text; of a long text the beginning and the end."""
    text = "\n".join(value if isinstance(value, str) else _written(value) for value in values_at(event, path))
    return text if len(text) <= 2 * LONGEST_TEXT else text[:LONGEST_TEXT] + text[-LONGEST_TEXT:]


def _written(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return ""


def parse_event(line: str) -> Any:
    """Parse a line as a JSON object; None for anything else, which clients print as well."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
    return event if isinstance(event, dict) else None


LONGEST_LINE: Final = 8 << 20  # characters; parsed as JSON, a line can take twenty times as much


@dataclass
class ReadingLimit:
    """Limit on how much is still read. The transcripts of the longest real turns are far below it."""

    lines: int = 1_000_000
    characters: int = 512 << 20
    entries: int = 100_000  # of folders that are searched
    files: int = 1000


def bounded_lines(file: IO[str], limit: ReadingLimit) -> Iterator[str]:
    """Yield the lines of a file within the limit, skipping those that are too long."""
    is_whole = True
    while limit.lines > 0 and limit.characters > 0 and (line := file.readline(LONGEST_LINE)):
        began, is_whole = is_whole, line.endswith("\n") or len(line) < LONGEST_LINE
        limit.characters -= len(line)
        limit.lines -= 1
        if began and is_whole:
            yield line


MAX_FILE_BYTES: Final = 256 << 20
MAX_JSON_FILE_BYTES: Final = 32 << 20  # of a file that is one event: parsed, it takes up to twenty times as much
DEEPEST: Final = 16  # folders below which `**` does not look
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def session_events(home: Path, pattern: str, session: str, limit: ReadingLimit) -> Iterator[Any]:
    """Yield events of files below HOME: one per `.json` file, one per line of others. The pattern may use
    `${session}`."""
    filled = fill(pattern, {"session": session} if session else {})
    parts = PurePosixPath(filled or "/").parts
    if ".." in parts or parts[0] == "/":
        return
    with _opened(str(home), os.O_DIRECTORY) as folder:
        for file in _files(folder, parts, DEEPEST, limit):
            yield from _events_of(file, parts[-1].endswith(".json"), limit)


def _events_of(file: IO[str], is_one: bool, limit: ReadingLimit) -> Iterator[Any]:
    texts = _whole(file, limit) if is_one else bounded_lines(file, limit)
    yield from (event for text in texts if (event := parse_event(text)) is not None)


def _whole(file: IO[str], limit: ReadingLimit) -> Iterator[str]:
    text = file.read(max(0, min(MAX_JSON_FILE_BYTES, limit.characters)))
    limit.characters -= len(text)
    yield text


def _files(folder: int | None, parts: tuple[str, ...], depth: int, limit: ReadingLimit) -> Iterator[IO[str]]:
    """Open matching files step by step and by descriptor, never through a link."""
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
    except OSError as error:
        _raise_shortage(error)
        return []
    limit.entries -= len(names)
    return sorted(name for name in names if fnmatchcase(name, pattern))


def _file(folder: int, name: str, limit: ReadingLimit) -> Iterator[IO[str]]:
    """Yield the open file, or nothing if it is not a plain file of a plausible size."""
    limit.files -= 1
    with _opened(name, 0, folder) as descriptor:
        if descriptor is None or limit.files < 0:
            return
        facts = os.fstat(descriptor)
        largest = MAX_JSON_FILE_BYTES if name.endswith(".json") else MAX_FILE_BYTES
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= largest:
            with open(descriptor, encoding="utf-8", errors="replace", closefd=False) as file:
                yield file


def _raise_shortage(error: OSError) -> None:
    """Raise an error that says nothing about the file. EAGAIN does: somebody has a lease on it."""
    if error.errno in SCARCE:
        raise error


@contextmanager
def _opened(name: str, flags: int, folder: int | None = None) -> Iterator[int | None]:
    try:
        descriptor = os.open(name, READ | flags, dir_fd=folder)
    except OSError as error:
        _raise_shortage(error)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
