"""One process owns a run: an advisory lock that dies with its holder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final, Self

from evopolicygym.errors import UserError

NAME: Final = ".lock"
PATIENCE_S: Final = 0.5  # in a suite: somebody who looks how it stands holds each lock for an instant
POLL_S: Final = 0.01


class RunIsOwned(UserError):
    """Another process owns the run."""


class RunLock:
    def __init__(self, root: Path, patience_s: float = 0.0) -> None:
        self._file = os.open(root / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not _locked(self._file, time.monotonic() + patience_s):
            os.close(self._file)
            raise RunIsOwned(
                f"another process owns the run {root}",
                f"Wait until it ends, or let it close and score the run now: `evopolicygym finish {root}`. "
                "A run that `serve` owns takes submissions in its workspace.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)


def _locked(file: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
