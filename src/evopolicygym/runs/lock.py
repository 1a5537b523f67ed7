"""One process owns a run: an advisory lock that dies with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from evopolicygym.errors import UserError

NAME: Final = ".lock"


class RunIsOwned(UserError):
    """Another process owns the run."""


class RunLock:
    def __init__(self, root: Path) -> None:
        self._file = os.open(root / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise RunIsOwned(
                f"another process owns the run {root}",
                f"It is being served: submit there, or end it with `evopolicygym finish {root}`.",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)
