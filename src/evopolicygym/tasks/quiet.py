"""Environments print when they are imported and made. Of a command's standard output that would make nonsense."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Final

ONE_AT_A_TIME: Final = threading.RLock()  # or one thread would keep, and put back, what another has put there


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """For the time of the block, Python's and the C library's standard output go to standard error. For commands
    alone: the standard output of a worker goes nowhere."""
    with ONE_AT_A_TIME:
        _flush()
        kept = os.dup(1)
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)


def _flush() -> None:
    """What either has kept back belongs to where it was said."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
