"""System call numbers of both supported machines: the calls that the sandbox makes, allows or refuses.

Which calls a policy may make is in ``policy/syscall_filter.py``; which an agent may not make, in
``agent/syscall_filter.py``.
"""

from __future__ import annotations

import platform
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
