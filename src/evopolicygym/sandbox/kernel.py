"""System call numbers of both supported machines, and thin ctypes bindings to the kernel calls that Python's standard
library lacks. Each binding raises OSError on failure.

The numbers cover the calls that the sandbox makes, allows or refuses. ``policy/syscall_filter.py`` lists the calls that
a policy may make, ``agent/syscall_filter.py`` those that an agent may not make.
"""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from typing import Final

X86_64: Final = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "shmget": 29, "shmat": 30, "dup": 32, "dup2": 33, "pause": 34,
    "nanosleep": 35, "getpid": 39, "socket": 41, "sendto": 44, "sendmsg": 46, "clone": 56, "exit": 60, "kill": 62,
    "uname": 63, "semget": 64, "msgget": 68, "fcntl": 72, "truncate": 76, "getdents": 78, "getcwd": 79, "chdir": 80,
    "fchdir": 81, "readlink": 89, "umask": 95, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "times": 100,
    "getuid": 102, "syslog": 103, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111,
    "getgroups": 115, "sigaltstack": 131, "sched_getparam": 143, "sched_getscheduler": 145, "pivot_root": 155,
    "arch_prctl": 158, "chroot": 161, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "init_module": 175, "delete_module": 176, "quotactl": 179, "gettid": 186, "time": 201, "futex": 202,
    "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228,
    "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "tgkill": 234, "mq_open": 240, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "pselect6": 270, "ppoll": 271, "unshare": 272, "set_robust_list": 273, "get_robust_list": 274,
    "dup3": 292, "pipe2": 293, "perf_event_open": 298, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "sendmmsg": 307, "setns": 308, "getcpu": 309, "finit_module": 313, "seccomp": 317,
    "getrandom": 318, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "membarrier": 324, "statx": 332,
    "rseq": 334, "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439, "mount_setattr": 442,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446, "futex_wait": 455,
}  # fmt: skip

AARCH64: Final = {
    "getcwd": 17, "dup": 23, "dup3": 24, "fcntl": 25, "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41,
    "truncate": 45, "faccessat": 48, "chdir": 49, "fchdir": 50, "chroot": 51, "openat": 56, "close": 57, "pipe2": 59,
    "quotactl": 60, "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67,
    "pwrite64": 68, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "acct": 89,
    "exit": 93, "exit_group": 94, "set_tid_address": 96, "unshare": 97, "futex": 98, "set_robust_list": 99,
    "get_robust_list": 100, "nanosleep": 101, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "syslog": 116, "sched_getscheduler": 120,
    "sched_getparam": 121, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "kill": 129,
    "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "reboot": 142,
    "times": 153, "getgroups": 158, "uname": 160, "getrlimit": 163, "getrusage": 165, "umask": 166, "getcpu": 168,
    "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
    "gettid": 178, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "socket": 198,
    "sendto": 206, "sendmsg": 211, "brk": 214, "munmap": 215, "mremap": 216, "add_key": 217, "request_key": 218,
    "keyctl": 219, "clone": 220, "mmap": 222, "swapon": 224, "swapoff": 225, "mprotect": 226, "madvise": 233,
    "perf_event_open": 241, "prlimit64": 261, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "sendmmsg": 269, "finit_module": 273, "seccomp": 277, "getrandom": 278, "bpf": 280, "userfaultfd": 282,
    "membarrier": 283, "statx": 291, "rseq": 293, "kexec_file_load": 294, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "close_range": 436, "openat2": 437, "faccessat2": 439, "mount_setattr": 442, "landlock_create_ruleset": 444,
    "landlock_add_rule": 445, "landlock_restrict_self": 446, "futex_wait": 455,
}  # fmt: skip

AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES: Final = {"x86_64": X86_64, "aarch64": AARCH64}


def table(machine: str | None = None) -> dict[str, int]:
    """Return the numbers of a machine, by default of this one. A machine without a table has no jail."""
    name = machine or platform.machine()
    if name not in TABLES:
        raise OSError(f"no syscall table for {name}: the jail supports {', '.join(TABLES)}")
    return TABLES[name]


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

OUT_OF_MEMORY_SCORE: Final = "500"
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


def prefer_for_oom_kill() -> None:
    """Let the kernel kill this process before the judge when memory runs out."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OUT_OF_MEMORY_SCORE)
