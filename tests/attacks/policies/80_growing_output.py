"""Makes the memory file that catches its output grow, or seals it, or opens it anew: it is the judge's memory."""

import fcntl
import os

from kit import REPORT, any_works, syscall

ADD_SEALS, SEAL_WRITE = 1033, 8


def attack() -> bool:
    return any_works(
        *[lambda file=file: os.ftruncate(file, 1 << 30) for file in (1, 2, REPORT)],
        lambda: os.pwrite(1, b"x", 1 << 20),
        lambda: syscall("fallocate", 1, 0, 0, 1 << 30) == 0,
        lambda: os.open("/proc/self/fd/1", os.O_RDWR | os.O_TRUNC),
        lambda: fcntl.fcntl(1, ADD_SEALS, SEAL_WRITE),
    )
