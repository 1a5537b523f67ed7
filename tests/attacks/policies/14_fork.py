"""Starts other processes, by every call that can: the first step of a fork bomb, and the way out of limits that
count for one process."""

import ctypes
import os
import signal

from kit import any_works, syscall


def by_fork() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


def by_clone(flags: int) -> bool:
    child = syscall("clone", flags, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child > 0 and os.waitpid(child, 0) is not None


def by_clone3() -> bool:
    arguments = (ctypes.c_uint64 * 8)(0, 0, 0, 0, signal.SIGCHLD)
    child = syscall("clone3", arguments, 64)
    if child == 0:
        os._exit(0)
    return child > 0 and os.waitpid(child, 0) is not None


def by_spawn() -> bool:
    return os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0) is not None


def attack() -> bool:
    clones = [lambda flags=flags: by_clone(flags) for flags in (signal.SIGCHLD, 1 << 32 | signal.SIGCHLD)]
    return any_works(by_fork, by_clone3, by_spawn, *clones)
