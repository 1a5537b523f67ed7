"""What clients leave in their HOME about a session. The agent can write there, so nothing is taken on trust: no links
are followed out of it, no pipe is waited for, and what is too large is not read."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from evopolicygym.agents import picks
from evopolicygym.agents.templates import fill

LARGEST: Final = 256 << 20
MOST: Final = 1000


def events(home: Path, pattern: str, session: str) -> Iterator[Any]:
    """One for each file that ends in `.json`, and for each line of the others. The pattern may name `${session}`."""
    filled = fill(pattern, {"session": session} if session else {})
    if filled is None:
        return
    for path in islice(home.glob(filled), MOST):
        if path.resolve().is_relative_to(home.resolve()):
            yield from _events_of(path)


def _events_of(path: Path) -> Iterator[Any]:
    with _opened(path) as file:
        lines = [file.read()] if path.suffix == ".json" else file
        yield from (event for line in lines if (event := picks.parse(line)) is not None)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Nothing at all for what is not a file of a sensible size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield io.StringIO()
        return
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        facts = os.fstat(descriptor)
        is_sensible = stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST
        yield file if is_sensible else io.StringIO()
