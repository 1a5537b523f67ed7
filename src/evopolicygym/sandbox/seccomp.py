"""Seccomp: the system call layer. A small assembler for the kernel's filter language, shared by the filters of policies
(``policy/syscall_filter.py``) and of agents (``agent/syscall_filter.py``).

A filter is the last layer to be applied, because the layers before it need calls that it refuses.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence
from typing import Final

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.kernel import AUDIT_ARCH, table

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

CLONE_ANY_NAMESPACE: Final = 0x7E02_0080
O_WRONLY, O_RDWR, O_TRUNC = 1, 2, 0o1000


def low(argument: int) -> int:
    """Return the offset of the low word of an argument."""
    return 16 + 8 * argument


def high(argument: int) -> int:
    return 20 + 8 * argument


def op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value & 0xFFFF_FFFF)


def prologue(machine: str) -> list[bytes]:
    """Kill on a call of another architecture, then load the number of the call."""
    return [
        op(LOAD, ARCHITECTURE),
        op(JUMP_EQUAL, AUDIT_ARCH[machine], 1),
        op(RETURN, KILL),
        op(LOAD, NUMBER),
        op(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        op(RETURN, KILL),
    ]


def when(number: int, body: list[bytes]) -> list[bytes]:
    """Run ``body`` (which must end in a return) for this system call, jump over it for all others."""
    return [op(JUMP_EQUAL, number, 0, len(body)), *body]


def only_values(argument: int, values: Sequence[int], otherwise: int) -> list[bytes]:
    """Allow the call if the argument is one of ``values``."""
    return [op(LOAD, low(argument)), *only(values, otherwise)]


def only(values: Sequence[int], otherwise: int) -> list[bytes]:
    """Allow the call if the loaded word is one of ``values``."""
    tests = [op(JUMP_EQUAL, value, len(values) - i) for i, value in enumerate(values)]
    return [*tests, op(RETURN, otherwise), op(RETURN, ALLOW)]


def only_writable_truncation(machine: str) -> list[bytes]:
    """Allow O_TRUNC in ``open`` and ``openat`` only together with write access: Landlock before ABI 3 lets it pass for
    reading (access mode 0) and for no access at all (3)."""
    numbers = table(machine)
    return [
        *when(numbers["openat"], _truncation_needs_write(2)),
        *(when(numbers["open"], _truncation_needs_write(1)) if "open" in numbers else []),
    ]


def _truncation_needs_write(flags: int) -> list[bytes]:
    return [
        op(LOAD, low(flags)),
        op(JUMP_ANY_BIT, O_TRUNC, 0, 3),
        op(JUMP_ANY_BIT, O_WRONLY, 0, 1),
        op(JUMP_ANY_BIT, O_RDWR, 2, 1),
        op(JUMP_ANY_BIT, O_RDWR, 0, 1),
        op(RETURN, ALLOW),
        op(RETURN, DENY),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(program: bytes) -> None:
    """Apply the filter to this process, for good. Needs no_new_privs."""
    description = _Program(len(program) // 8, program)
    set_mode_filter = 1
    kernel.syscall("seccomp", ctypes.c_uint(set_mode_filter), ctypes.c_uint(0), ctypes.byref(description))
