"""Takes an open file out of another process: pidfd_getfd needs no path and no right to the file."""

import os

from kit import FACTS, syscall

ROOT = True


def attack() -> bool:
    for pid in (FACTS["sleeper"], os.getppid(), *FACTS["processes"]):
        handle = syscall("pidfd_open", pid, 0)
        if handle >= 0 and any(syscall("pidfd_getfd", handle, descriptor, 0) >= 0 for descriptor in range(8)):
            return True
    return False
