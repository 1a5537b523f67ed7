"""Syscall numbers, as data: the calls the jail makes, and the calls a jailed policy may make.

Everything absent from ``ALLOWED`` is refused with EPERM inside the jail. The list is what CPython with numpy and scipy
needs to compute, read its own files and answer on a pipe: no fork, exec, socket, file creation, signals to others.
None of them makes a pipe, an event counter or anything else that takes a number which the whole machine counts; of
``mmap``, which can, the filter refuses that part.
"""

from __future__ import annotations

import platform
from typing import Final

X86_64: Final = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "rt_sigreturn": 15, "ioctl": 16, "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21,
    "pipe": 22, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "pause": 34,
    "nanosleep": 35, "getpid": 39, "clone": 56, "exit": 60, "kill": 62, "uname": 63,
    "fcntl": 72, "getdents": 78, "getcwd": 79, "chdir": 80, "fchdir": 81, "readlink": 89, "umask": 95,
    "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "times": 100, "getuid": 102, "getgid": 104,
    "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115, "sigaltstack": 131,
    "sched_getparam": 143, "sched_getscheduler": 145, "pivot_root": 155, "arch_prctl": 158, "gettid": 186,
    "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "tgkill": 234, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273,
    "get_robust_list": 274, "dup3": 292, "pipe2": 293,
    "prlimit64": 302, "getcpu": 309, "seccomp": 317, "getrandom": 318, "membarrier": 324, "statx": 332,
    "rseq": 334, "pidfd_send_signal": 424, "pidfd_open": 434, "clone3": 435, "close_range": 436, "faccessat2": 439,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446, "futex_wait": 455,
}  # fmt: skip

AARCH64: Final = {
    "getcwd": 17, "dup": 23, "dup3": 24,
    "fcntl": 25, "ioctl": 29, "pivot_root": 41, "faccessat": 48, "chdir": 49, "fchdir": 50, "openat": 56,
    "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66,
    "pread64": 67, "pwrite64": 68, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
    "exit": 93, "exit_group": 94, "set_tid_address": 96, "futex": 98, "set_robust_list": 99,
    "get_robust_list": 100, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
    "sched_getscheduler": 120, "sched_getparam": 121, "sched_getaffinity": 123, "sched_yield": 124,
    "restart_syscall": 128, "kill": 129, "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getgroups": 158, "uname": 160, "getrlimit": 163,
    "getrusage": 165, "umask": 166, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173,
    "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "brk": 214, "munmap": 215, "mremap": 216, "clone": 220, "mmap": 222, "mprotect": 226,
    "madvise": 233, "prlimit64": 261, "seccomp": 277, "getrandom": 278, "membarrier": 283, "statx": 291,
    "rseq": 293, "pidfd_send_signal": 424, "pidfd_open": 434, "clone3": 435, "close_range": 436, "faccessat2": 439,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446, "futex_wait": 455,
}  # fmt: skip

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
    # signals to oneself
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack "
    # facts about oneself, clocks, randomness
    "getpid gettid getppid getpgrp getuid geteuid getgid getegid getgroups uname getrlimit getrusage times time "
    "gettimeofday getcpu getrandom".split()
)

AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES: Final = {"x86_64": X86_64, "aarch64": AARCH64}


def table(machine: str | None = None) -> dict[str, int]:
    """The numbers of this machine; a machine without a table has no jail."""
    name = machine or platform.machine()
    if name not in TABLES:
        raise OSError(f"no syscall table for {name}: the jail supports {', '.join(TABLES)}")
    return TABLES[name]
