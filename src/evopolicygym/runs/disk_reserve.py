"""Room on the disk that a run keeps while its agent lives, which shares the disk and may fill it: for the agent's last
turn in the ledger, for the score and for the record."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from evopolicygym.run_paths import RunPaths

NAME: Final = ".reserve"
BYTES: Final = 8 << 20
PART: Final = 1 << 20


def make(paths: RunPaths) -> None:
    """Where there is room; a run does not fail for want of it."""
    with suppress(OSError):
        descriptor = os.open(_path(paths), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, BYTES)
        finally:
            os.close(descriptor)


def release(paths: RunPaths) -> bool:
    """Whether there was anything to release."""
    try:
        os.unlink(_path(paths))
    except OSError:
        return False
    return True


def release_part(paths: RunPaths) -> bool:
    """For a line while the agent lives: most of it stays for later. Whether there was enough to release."""
    try:
        descriptor = os.open(_path(paths), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        left = os.fstat(descriptor).st_size - PART
        if left <= 0:
            return False
        os.ftruncate(descriptor, left)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _path(paths: RunPaths) -> Path:
    return paths.root / NAME
