"""What attacks share: what they were told of the host, raw system calls, and how to know a secret when they see one."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json")) as _file:
    FACTS: dict[str, Any] = json.load(_file)

CHANNEL = 3  # the descriptor of the socket to the judge
HEAD = struct.Struct("<II")  # of a frame: operation, nonce
READY, RESET, STEP, ERROR = 1, 2, 3, 4
MASK = 0x5A5A_5A5A_5A5A_5A5A
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)

observation: Any = None  # the latest, set by policy.py
step = 0

# name: x86_64, aarch64
NUMBERS = {
    "accept4": (288, 242), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bind": (49, 200),
    "bpf": (321, 280), "cachestat": (451, 451), "chroot": (161, 51), "clock_gettime": (228, 113), "clone": (56, 220),
    "clone3": (435, 435), "close_range": (436, 436), "connect": (42, 203), "copy_file_range": (326, 285),
    "delete_module": (176, 106), "execveat": (322, 281), "fallocate": (285, 47), "fanotify_init": (300, 262),
    "fchdir": (81, 50), "fchmodat": (268, 53), "fchownat": (260, 54), "finit_module": (313, 273), "flock": (73, 32),
    "fsopen": (430, 430), "fspick": (433, 433), "ftruncate": (77, 46), "futex": (202, 98), "futex_wake": (454, 454),
    "getitimer": (36, 102), "getpriority": (140, 141), "gettid": (186, 178), "getxattr": (191, 8),
    "init_module": (175, 105), "inotify_init1": (294, 26), "io_setup": (206, 0), "io_submit": (209, 2),
    "io_uring_setup": (425, 425), "ioprio_set": (251, 30), "kcmp": (312, 272), "keyctl": (250, 219), "kill": (62, 129),
    "landlock_create_ruleset": (444, 444), "linkat": (265, 37), "listen": (50, 201), "lookup_dcookie": (212, 18),
    "mbind": (237, 235), "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "mincore": (27, 232), "mkdirat": (258, 34), "mknodat": (259, 33), "mlock": (149, 228), "mlockall": (151, 230),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "mq_open": (240, 180), "mremap": (25, 216), "msgget": (68, 186), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "msync": (26, 227), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "openat": (257, 56), "openat2": (437, 437), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41),
    "prctl": (157, 167), "preadv2": (327, 286), "prlimit64": (302, 261), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "readahead": (187, 213), "reboot": (169, 142), "renameat2": (316, 276),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "rt_sigtimedwait": (128, 137),
    "rt_tgsigqueueinfo": (297, 240), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119), "seccomp": (317, 277), "semget": (64, 190), "semop": (65, 193),
    "sendfile": (40, 71), "sendmmsg": (307, 269), "sendmsg": (46, 211), "set_mempolicy": (238, 237),
    "set_tid_address": (218, 96), "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "setpriority": (141, 140), "setresuid": (117, 147), "setrlimit": (160, 164), "setsid": (112, 157),
    "setsockopt": (54, 208), "setxattr": (188, 5), "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194),
    "shutdown": (48, 210), "signalfd4": (289, 74), "socket": (41, 198), "socketpair": (53, 199), "splice": (275, 76),
    "statfs": (137, 43), "swapon": (167, 224), "symlinkat": (266, 36), "sync_file_range": (277, 84),
    "sysinfo": (99, 179), "syslog": (103, 116), "tee": (276, 77), "tgkill": (234, 131), "timer_create": (222, 107),
    "timerfd_create": (283, 85), "tkill": (200, 130), "truncate": (76, 45), "umount2": (166, 39), "unlinkat": (263, 35),
    "unshare": (272, 97), "userfaultfd": (323, 282), "utimensat": (280, 88), "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(name: str, *arguments: Any) -> int:
    """By name; the result, or minus the error number."""
    return numbered(NUMBERS[name][platform.machine() == "aarch64"], *arguments)


def numbered(number: int, *arguments: Any) -> int:
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    return result if result >= 0 else -ctypes.get_errno()


def reached(name: str, *arguments: Any) -> bool:
    """Whether the call got as far as the kernel's own code: any answer but a refusal, be it "invalid argument"."""
    answer = syscall(name, *arguments)
    if -answer in REFUSED:
        return False
    print(f"{name} was reached: {answer}", file=sys.stderr)
    return True


def any_works(*attempts: Callable[[], Any]) -> bool:
    """Make every attempt; whether one went through, which is to return anything but False."""
    won = False
    for number, attempt in enumerate(attempts):
        try:
            answer = attempt()
        except Exception as error:
            answer = False
            print(f"attempt {number}: {error!r}", file=sys.stderr)
        if answer is not False:
            won = True
            print(f"attempt {number} worked: {answer!r}", file=sys.stderr)
    return won


def is_secret(data: bytes | str) -> bool:
    """Whether the canary is in there. Attacks know only its hash, or they would find their own knowledge of it."""
    text = data if isinstance(data, bytes) else data.encode(errors="replace")
    found = re.finditer(rb"canary-[0-9a-f]{32}", text)
    return any(hashlib.sha256(match[0]).hexdigest() == FACTS["canary_sha256"] for match in found)


def reads_secret(path: str) -> bool:
    with open(path, "rb") as file:
        return is_secret(file.read())


def disguised_seed() -> int:
    """The seed of the case, masked: compare ``candidate ^ MASK`` with it, and the seed itself is never written down."""
    return int.from_bytes(bytes(observation[:8]), "little")


def nonce() -> int:
    """Of the question that is being answered, from the frames of the harness."""
    frame = sys._getframe()
    while "nonce" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    return int(frame.f_locals["nonce"])


def answer(discrete: int, first: float = 0.0, second: float = 0.0) -> bytes:
    """An action as the harness would encode it."""
    return struct.pack("<qff", discrete, first, second)
