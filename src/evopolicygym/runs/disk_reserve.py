"""Disk space that a run reserves while its agent is alive: for the agent's last turn in the ledger, the score and the
record. The agent shares the disk and may fill it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from evopolicygym.run_paths import RESERVE, RunPaths

BYTES: Final = 8 << 20
PART: Final = 1 << 20


def make(paths: RunPaths) -> None:
    """Reserve the space if there is enough. Without it the run continues."""
    with suppress(OSError):
        descriptor = os.open(_path(paths), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, BYTES)
        finally:
            os.close(descriptor)


def release(paths: RunPaths) -> bool:
    """Free the reserved space; return whether there was any."""
    try:
        os.unlink(_path(paths))
    except OSError:
        return False
    return True


def release_part(paths: RunPaths) -> bool:
    """Free a part for a ledger line while the agent is alive; the rest stays reserved. Return whether there was
    enough."""
    try:
        descriptor = os.open(_path(paths), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        remaining = os.fstat(descriptor).st_size - PART
        if remaining <= 0:
            return False
        os.ftruncate(descriptor, remaining)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _path(paths: RunPaths) -> Path:
    return paths.root / RESERVE
