"""Landlock: the file layer that needs no privilege. A process names what it may access, and loses the rest for good."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from evopolicygym.sandbox import kernel

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
READ: Final = EXECUTE | READ_FILE | READ_DIR
MAKE_DEVICES: Final = 1 << 6 | 1 << 11
TRUNCATE: Final = 1 << 14  # from ABI 3
DEVICE_CONTROL: Final = 1 << 15  # from ABI 5
FILE_ONLY: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL

# Every file access right that the kernel of an ABI can refuse; refused wherever no rule grants it.
HANDLED_BY_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 8: 16, 9: 17}
TCP_BIND_AND_CONNECT: Final = 3  # from ABI 4
TCP_CONNECT: Final = 2
RULE_PATH, RULE_PORT = 1, 2
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 3  # from ABI 6


class _RulesetAttribute(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32))


@dataclass(frozen=True)
class FileGrant:
    """Access of a confined program. ``read``: trees to read and execute; ``browse``: folders to list; ``change``:
    trees to change; ``devices`` to use; ``connect``: TCP ports to connect to (None: any, and binding is free)."""

    read: tuple[str, ...]
    browse: tuple[str, ...]
    change: tuple[str, ...]
    devices: tuple[str, ...]
    connect: tuple[int, ...] | None


def abi() -> int:
    """Return the version that the kernel offers; 0 without Landlock."""
    try:
        return kernel.syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable_files: Iterable[str] = (), max_abi: int | None = None) -> int:
    """Confine this process to reading ``readable``; return the ABI in force. Needs no_new_privs (or CAP_SYS_ADMIN)."""
    version = usable_abi(max_abi)
    handled = (1 << HANDLED_BY_ABI[version]) - 1
    ruleset = _create(version, handled, TCP_BIND_AND_CONNECT)
    for path in readable:
        _allow(ruleset, path, READ & handled)
    for path in writable_files:
        _allow(ruleset, path, (READ_FILE | WRITE_FILE) & handled)
    _enforce(ruleset)
    return version


def confine(grant: FileGrant, max_abi: int | None = None) -> int:
    """Confine this process, and all that it will ever start, to ``grant``; return the ABI in force."""
    version = usable_abi(max_abi)
    handled = (1 << HANDLED_BY_ABI[version]) - 1
    ruleset = _create(version, handled, 0 if grant.connect is None else TCP_CONNECT)
    device = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | DEVICE_CONTROL
    for paths, rights in (
        (grant.read, READ),
        (grant.browse, READ_DIR),
        (grant.change, handled & ~MAKE_DEVICES),
        (grant.devices, device),
    ):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    if version >= 4:
        for port in grant.connect or ():
            _allow_port(ruleset, port)
    _enforce(ruleset)
    return version


def scope() -> bool:
    """Confine signals and abstract sockets to this process and its children; return whether the kernel can."""
    if abi() < 6:
        return False
    _enforce(_create(6, 0, 0))
    return True


@cache
def usable_abi(max_abi: int | None = None) -> int:
    version = min(abi(), max_abi or max(HANDLED_BY_ABI), max(HANDLED_BY_ABI))
    if version == 0:
        raise OSError(errno.EOPNOTSUPP, "Landlock is not available in this kernel")
    return version


def _enforce(ruleset: int) -> None:
    kernel.syscall("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)


def _create(version: int, handled: int, tcp: int) -> int:
    attribute = _RulesetAttribute(
        handled, tcp if version >= 4 else 0, SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    return kernel.syscall("landlock_create_ruleset", ctypes.byref(attribute), ctypes.c_size_t(size), ctypes.c_uint(0))


def _allow(ruleset: int, path: str, access: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = access if os.path.isdir(path) else access & FILE_ONLY
        rule = _PathBeneath(rights, fd)
        _add(ruleset, RULE_PATH, rule)
    finally:
        os.close(fd)


def _allow_port(ruleset: int, port: int) -> None:
    _add(ruleset, RULE_PORT, _Port(TCP_CONNECT, port))


def _add(ruleset: int, kind: int, rule: ctypes.Structure) -> None:
    kernel.syscall("landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(kind), ctypes.byref(rule), ctypes.c_uint(0))
