"""Seccomp: the syscall layer. Assembles the filter of one policy process from the data in ``syscalls``.

Default is EPERM; a foreign architecture kills; a handful of calls are allowed by argument (below). The filter is the
last layer to be laid, because the layers before it need calls that it refuses.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Sequence
from functools import cache
from typing import Final

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.syscalls import ALLOWED, AUDIT_ARCH, table

LOAD: Final = 0x20
JUMP_EQUAL: Final = 0x15
JUMP_GREATER_EQUAL: Final = 0x35
JUMP_ANY_BIT: Final = 0x45
AND: Final = 0x54
RETURN: Final = 0x06

ALLOW: Final = 0x7FFF_0000
KILL: Final = 0x8000_0000
DENY: Final = 0x0005_0000 | errno.EPERM
NOT_THERE: Final = 0x0005_0000 | errno.ENOSYS
NO_TTY: Final = 0x0005_0000 | errno.ENOTTY
TRY_AGAIN: Final = 0x0005_0000 | errno.EAGAIN
INVALID: Final = 0x0005_0000 | errno.EINVAL

# Offsets in struct seccomp_data; arguments are 64 bit, low word first on both machines.
NUMBER: Final = 0
ARCHITECTURE: Final = 4
X32_BIT: Final = 0x4000_0000

CLONE_THREAD: Final = 0x0001_0000
CLONE_ANY_NAMESPACE: Final = 0x7E02_0080
IOCTL_READS: Final = (0x5401, 0x541B, 0x5451, 0x5421)  # TCGETS (isatty), FIONREAD, FIOCLEX, FIONBIO
O_WRONLY, O_RDWR, O_TRUNC = 1, 2, 0o1000
FUTEX_PRIVATE: Final = 128
SHARED_AND_ANONYMOUS: Final = 0x21  # MAP_SHARED_VALIDATE has the bit of MAP_SHARED, too
MAP_HUGETLB: Final = 0x4_0000
# normal, random, sequential, willneed, dontneed, free, (no)hugepage, (no)dump, wipeonfork. Not among them: what empties
# the page cache of files that others read (cold, pageout), merges equal pages, punches holes.
ADVICE: Final = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 18)
FCNTL_HARMLESS: Final = (0, 1, 2, 3, 4, 1030)  # dup, get/set descriptor and status flags; no locks, leases, pipe sizes


def low(argument: int) -> int:
    return 16 + 8 * argument


def high(argument: int) -> int:
    return 20 + 8 * argument


def op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value & 0xFFFF_FFFF)


def when(number: int, body: list[bytes]) -> list[bytes]:
    """Run ``body`` (which must end in a return) for this syscall, jump over it for all others."""
    return [op(JUMP_EQUAL, number, 0, len(body)), *body]


def only_values(argument: int, values: tuple[int, ...], otherwise: int) -> list[bytes]:
    return [op(LOAD, low(argument)), *_only(values, otherwise)]


def _only(values: Sequence[int], otherwise: int) -> list[bytes]:
    tests = [op(JUMP_EQUAL, value, len(values) - i) for i, value in enumerate(values)]
    return [*tests, op(RETURN, otherwise), op(RETURN, ALLOW)]


def _only_threads() -> list[bytes]:
    return [
        op(LOAD, low(0)),
        op(JUMP_ANY_BIT, CLONE_THREAD, 0, 2),
        op(JUMP_ANY_BIT, CLONE_ANY_NAMESPACE, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]


def _only_own_limits(own_pid: int) -> list[bytes]:
    """prlimit64 of this process, without new values."""
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


def _only_about_itself(own_pid: int) -> list[bytes]:
    return only_values(0, (0, own_pid), DENY)


def _only_common_clocks() -> list[bytes]:
    """Numbers above these name the CPU clock of any process."""
    return [op(LOAD, low(0)), op(JUMP_GREATER_EQUAL, 16, 1), op(RETURN, ALLOW), op(RETURN, DENY)]


def only_honest_open(flags: int) -> list[bytes]:
    """O_TRUNC only with the right to write: Landlock before ABI 3 lets it pass for reading (0) and for nothing (3)."""
    return [
        op(LOAD, low(flags)),
        op(JUMP_ANY_BIT, O_TRUNC, 0, 3),
        op(JUMP_ANY_BIT, O_WRONLY, 0, 1),
        op(JUMP_ANY_BIT, O_RDWR, 2, 1),
        op(JUMP_ANY_BIT, O_RDWR, 0, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]


def _only_private_futex() -> list[bytes]:
    """Others are known by file and offset, and reach the processes of other episodes. "Try again" is an answer that
    every waiter takes: pthread_join, which has no private way, then asks until the thread has ended."""
    return [op(LOAD, low(1)), op(JUMP_ANY_BIT, FUTEX_PRIVATE, 0, 1), op(RETURN, ALLOW), op(RETURN, TRY_AGAIN)]


def _only_own_memory() -> list[bytes]:
    """Each shared anonymous mapping takes the next inode number of a counter that the whole machine shares, and so does
    each attempt at huge pages, be it private and in vain: other episodes and other runs can read how far it is."""
    return [
        op(LOAD, low(3)),
        op(JUMP_ANY_BIT, MAP_HUGETLB, 3),
        op(AND, SHARED_AND_ANONYMOUS),
        op(JUMP_EQUAL, SHARED_AND_ANONYMOUS, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]


@cache
def build(own_pid: int, machine: str | None = None) -> bytes:
    """The filter of a policy process whose pid, as it sees itself, is ``own_pid``."""
    machine = machine or platform.machine()
    numbers = table(machine)
    program = [
        op(LOAD, ARCHITECTURE),
        op(JUMP_EQUAL, AUDIT_ARCH[machine], 1),
        op(RETURN, KILL),
        op(LOAD, NUMBER),
        op(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        op(RETURN, KILL),
        *when(numbers["prlimit64"], _only_own_limits(own_pid)),  # read limits, never set them
        *when(numbers["kill"], only_values(0, (own_pid,), DENY)),
        *when(numbers["tgkill"], only_values(0, (own_pid,), DENY)),
    ]
    for name in ("sched_getaffinity", "sched_getparam", "sched_getscheduler"):
        program += when(numbers[name], _only_about_itself(own_pid))
    return b"".join(program) + _whatever_the_pid(machine)


@cache
def _whatever_the_pid(machine: str) -> bytes:
    """Most of it: a zygote has it before it forks."""
    numbers = table(machine)
    program = [
        *when(numbers["clone"], _only_threads()),
        *when(numbers["clone3"], [op(RETURN, NOT_THERE)]),  # glibc then falls back to clone, whose flags are visible
        *when(numbers["ioctl"], only_values(1, IOCTL_READS, NO_TTY)),
        *when(numbers["fcntl"], only_values(1, FCNTL_HARMLESS, DENY)),
        *when(numbers["futex"], _only_private_futex()),
        *when(numbers["mmap"], _only_own_memory()),
        *when(numbers["madvise"], only_values(2, ADVICE, INVALID)),  # as a kernel answers that does not know it
        *when(numbers["openat"], only_honest_open(2)),
        *(when(numbers["open"], only_honest_open(1)) if "open" in numbers else []),
    ]
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        program += when(numbers[name], _only_common_clocks())
    program += _only(sorted(numbers[name] for name in ALLOWED if name in numbers), DENY)
    return b"".join(program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(program: bytes) -> None:
    """Lay the filter on this process for good. Needs no_new_privs."""
    description = _Program(len(program) // 8, program)
    set_mode_filter = 1
    kernel.syscall("seccomp", ctypes.c_uint(set_mode_filter), ctypes.c_uint(0), ctypes.byref(description))
