"""What clients leave in their HOME about a session. The agent can write there, so nothing is taken on trust: no links
are followed out of it, no pipe is waited for, and what is too large is not read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents import picks
from evopolicygym.agents.templates import fill

LARGEST: Final = 256 << 20
MOST: Final = 1000


def events(home: Path, pattern: str, session: str) -> Iterator[Any]:
    """One for each JSON line of the files, or for a file that is JSON as a whole. The pattern may name `${session}`."""
    filled = fill(pattern, {"session": session} if session else {})
    if filled is None:
        return
    for path in sorted(home.glob(filled))[:MOST]:
        if path.resolve().is_relative_to(home.resolve()):
            yield from _events_of(path)


def _events_of(path: Path) -> Iterator[Any]:
    text = _text(path)
    try:
        whole = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict):
        yield whole
    else:
        yield from (event for line in text.splitlines() if (event := picks.parse(line)) is not None)


def _text(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        facts = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST else ""
