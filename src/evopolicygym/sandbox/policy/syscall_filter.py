"""The system calls of a policy: a list of allowed calls; the filter refuses everything else with EPERM.

The list is what CPython with numpy and scipy needs to compute, read its own files and answer on a pipe: no fork, exec,
socket, file creation, or signals to other processes. No allowed call makes a pipe, an event counter or anything else
that takes a number which the whole machine counts; ``mmap`` can, and the filter refuses that part of it. A call of
another architecture kills the process; some calls are allowed depending on their arguments.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Final

from evopolicygym.sandbox.kernel import table
from evopolicygym.sandbox.seccomp import (
    ALLOW,
    AND,
    CLONE_ANY_NAMESPACE,
    DENY,
    INVALID,
    JUMP_ANY_BIT,
    JUMP_EQUAL,
    JUMP_GREATER_EQUAL,
    LOAD,
    NO_TTY,
    NOT_THERE,
    RETURN,
    TRY_AGAIN,
    high,
    low,
    only,
    only_values,
    only_writable_truncation,
    op,
    prologue,
    when,
)

ALLOWED: Final = frozenset(
    # read requests, answer, read own files, print
    "read write readv writev pread64 pwrite64 close lseek dup dup2 dup3 "
    "stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat "
    "getdents getdents64 getcwd chdir fchdir umask close_range "
    # wait
    "poll ppoll select pselect6 pause "
    "nanosleep restart_syscall sched_yield "
    # memory and threads
    "mmap mprotect munmap mremap madvise brk set_robust_list get_robust_list set_tid_address "
    "membarrier rseq arch_prctl exit exit_group "
    # signal handlers
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack "
    # facts about this process, clocks, randomness
    "getpid gettid getppid getpgrp getuid geteuid getgid getegid getgroups uname getrlimit getrusage times time "
    "gettimeofday getcpu getrandom".split()
)

CLONE_THREAD: Final = 0x0001_0000
IOCTL_READS: Final = (0x5401, 0x541B, 0x5451, 0x5421)  # TCGETS (isatty), FIONREAD, FIOCLEX, FIONBIO
FUTEX_PRIVATE: Final = 128
SHARED_AND_ANONYMOUS: Final = 0x21  # MAP_SHARED_VALIDATE has the bit of MAP_SHARED, too
MAP_HUGETLB: Final = 0x4_0000
# normal, random, sequential, willneed, dontneed, free, (no)hugepage, (no)dump, wipeonfork. Not allowed is what empties
# the page cache of files that other processes read (cold, pageout), merges equal pages, or punches holes.
ADVICE: Final = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 18)
FCNTL_HARMLESS: Final = (0, 1, 2, 3, 4, 1030)  # dup, get/set descriptor and status flags; no locks, leases, pipe sizes


@cache
def build(own_pid: int, machine: str | None = None) -> bytes:
    """Assemble the filter of a policy process whose pid, as it sees itself, is ``own_pid``."""
    machine = machine or platform.machine()
    numbers = table(machine)
    program = [
        *prologue(machine),
        *when(numbers["prlimit64"], _only_own_limits(own_pid)),  # read limits, never set them
        *when(numbers["kill"], only_values(0, (own_pid,), DENY)),
        *when(numbers["tgkill"], only_values(0, (own_pid,), DENY)),
    ]
    for name in ("sched_getaffinity", "sched_getparam", "sched_getscheduler"):
        program += when(numbers[name], only_values(0, (0, own_pid), DENY))
    return b"".join(program) + _independent_of_pid(machine)


@cache
def _independent_of_pid(machine: str) -> bytes:
    """Assemble the larger part of the filter, which a zygote builds once before it forks."""
    numbers = table(machine)
    program = [
        *when(numbers["clone"], _only_threads()),
        *when(numbers["clone3"], [op(RETURN, NOT_THERE)]),  # glibc then falls back to clone, whose flags are visible
        *when(numbers["ioctl"], only_values(1, IOCTL_READS, NO_TTY)),
        *when(numbers["fcntl"], only_values(1, FCNTL_HARMLESS, DENY)),
        *when(numbers["futex"], _only_private_futex()),
        *when(numbers["mmap"], _only_private_memory()),
        *when(numbers["madvise"], only_values(2, ADVICE, INVALID)),  # as a kernel answers that does not know it
        *only_writable_truncation(machine),
    ]
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        program += when(numbers[name], _only_common_clocks())
    program += only(sorted(numbers[name] for name in ALLOWED if name in numbers), DENY)
    return b"".join(program)


def _only_threads() -> list[bytes]:
    return [
        op(LOAD, low(0)),
        op(JUMP_ANY_BIT, CLONE_THREAD, 0, 2),
        op(JUMP_ANY_BIT, CLONE_ANY_NAMESPACE, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]


def _only_own_limits(own_pid: int) -> list[bytes]:
    """Allow prlimit64 for this process, without new values."""
    return [
        op(LOAD, low(0)),
        op(JUMP_EQUAL, 0, 1),
        op(JUMP_EQUAL, own_pid, 0, 4),
        op(LOAD, low(2)),
        op(JUMP_EQUAL, 0, 0, 2),
        op(LOAD, high(2)),
        op(JUMP_EQUAL, 0, 1),
        op(RETURN, DENY),
        op(RETURN, ALLOW),
    ]


def _only_common_clocks() -> list[bytes]:
    """Allow clocks below 16: larger numbers name the CPU clock of any process."""
    return [op(LOAD, low(0)), op(JUMP_GREATER_EQUAL, 16, 1), op(RETURN, ALLOW), op(RETURN, DENY)]


def _only_private_futex() -> list[bytes]:
    """Allow private futexes: others are identified by file and offset, and reach processes of other episodes. Every
    waiter accepts the answer "try again": pthread_join, which has no private variant, then asks until the thread has
    ended."""
    return [op(LOAD, low(1)), op(JUMP_ANY_BIT, FUTEX_PRIVATE, 0, 1), op(RETURN, ALLOW), op(RETURN, TRY_AGAIN)]


def _only_private_memory() -> list[bytes]:
    """Refuse shared anonymous mappings and huge pages. Each shared anonymous mapping takes the next inode number of a
    counter that the whole machine shares, and so does each attempt at huge pages, even a private one that fails: other
    episodes and other runs could read the counter."""
    return [
        op(LOAD, low(3)),
        op(JUMP_ANY_BIT, MAP_HUGETLB, 3),
        op(AND, SHARED_AND_ANONYMOUS),
        op(JUMP_EQUAL, SHARED_AND_ANONYMOUS, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]
