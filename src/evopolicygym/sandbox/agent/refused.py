"""System calls that an agent is refused, as data. Everything else is allowed: agents fork, exec, thread and connect.

Numbers are those of x86_64 and aarch64.
"""

from __future__ import annotations

import platform
from typing import Final

Numbers = dict[str, tuple[int, int]]

# Kernel surface that no coding tool needs, and ways to other namespaces.
ALWAYS: Final[Numbers] = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # Keyrings are shared by user, not by namespace: notes from one run to the next.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip

# It would do what the rules below refuse, unseen by them. "Not there" is an answer for which programs are prepared.
NOT_THERE: Final[Numbers] = {
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "clone3": (435, 435),
}  # fmt: skip

# Without an IPC namespace these would be the host's.
SHARED_MEMORY: Final[Numbers] = {
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip

# Landlock before ABI 3 does not know them.
BY_PATH_UNSEEN: Final[Numbers] = {"truncate": (76, 45)}
OPEN_UNSEEN: Final[Numbers] = {"openat2": (437, 437)}

CLONE: Final = (56, 220)
IOCTL: Final = (16, 29)
SOCKET: Final = (41, 198)
SENDTO: Final = (44, 206)
SENDMSG: Final = (46, 211)
SENDMMSG: Final = (307, 269)


def here(numbers: tuple[int, int]) -> int:
    return numbers[("x86_64", "aarch64").index(platform.machine())]
