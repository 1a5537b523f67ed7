"""Thin ctypes bindings to the kernel calls that Python's standard library lacks. Each raises OSError on failure."""

from __future__ import annotations

import ctypes
import os
from typing import Final

from evopolicygym.sandbox.syscalls import table

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
MOUNT_READ_ONLY: Final = 1
MOUNT_NO_SUID: Final = 2
MOUNT_NO_DEVICES: Final = 4

# Looked up at import and not at the first call, which is mostly in a fresh child: work is cheaper before a fork.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.sethostname.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_libc.capset.argtypes = (ctypes.c_void_p, ctypes.c_void_p)

_CAPABILITY_HEADER: Final = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, of this process
_NO_CAPABILITIES: Final = (ctypes.c_uint32 * 6)()


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def syscall(name: str, *arguments: object) -> int:
    """Make a system call, by its name in the table of this machine."""
    return _check(int(_libc.syscall(ctypes.c_long(table()[name]), *arguments)), name)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, filesystem: str | None, flags: int = 0, data: str | None = None) -> None:
    result = _libc.mount(_bytes(source), _bytes(target), _bytes(filesystem), flags, _bytes(data))
    _check(result, f"mount {source} on {target}")


def restrict_mount(fd: int, attributes: int) -> None:
    """Add attributes to the mount with root ``fd``, and to all mounts beneath it. Removes none."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = ctypes.c_uint(AT_EMPTY_PATH | AT_RECURSIVE)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    syscall("mount_setattr", ctypes.c_int(fd), ctypes.c_char_p(b""), flags, ctypes.byref(wanted), size)


def detach(target: str) -> None:
    _check(_libc.umount2(_bytes(target), MNT_DETACH), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    syscall("pivot_root", _bytes(new_root), _bytes(put_old))


def sethostname(name: bytes) -> None:
    _check(_libc.sethostname(name, len(name)), "sethostname")


def prctl(option: int, value: int = 0) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def pidfd_open(pid: int) -> int:
    return syscall("pidfd_open", ctypes.c_int(pid), ctypes.c_uint(0))


def empty_bounding_set() -> None:
    """Empty the bounding set as far as that is permitted, which needs a capability itself."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break


def drop_capabilities() -> None:
    """Empty the bounding set where that is permitted, then every other set."""
    empty_bounding_set()
    clear_capabilities()


def clear_capabilities() -> None:
    """Empty every set but the bounding set."""
    _check(_libc.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES), "capset")


def die_with_parent(signal_number: int) -> None:
    """Receive ``signal_number`` when the parent dies (the owner of the other end should be checked for EOF too)."""
    prctl(PR_SET_PDEATHSIG, signal_number)
