"""Knocks at system calls that widen the attack surface of the kernel or the rights of the process. The arguments are
harmless or wrong: any answer but a refusal means that the door is there."""

from kit import reached

CALLS = {
    "acct": (1,), "add_key": (1, 1, 0, 0, 0), "adjtimex": (1,), "bpf": (99, 0, 0), "chroot": (1,),
    "delete_module": (1, 0), "execveat": (-1, 1, 0, 0, 0), "fanotify_init": (0, 0), "finit_module": (-1, 0, 0),
    "fsopen": (1, 0), "init_module": (1, 0, 0), "inotify_init1": (0,), "io_setup": (0, 0), "io_uring_setup": (0, 0),
    "ioprio_set": (9, 0, 0), "kcmp": (-1, -1, 0, 0, 0), "keyctl": (0, -3, 0, 0, 0), "mbind": (1, 1, 9, 0, 0, 0),
    "memfd_create": (1, 0), "migrate_pages": (-1, 0, 0, 0), "mincore": (1, 1, 0), "mknodat": (-1, 1, 0, 0),
    "mlock": (0, 0), "mount": (1, 1, 1, 0, 0), "mount_setattr": (-1, 1, 0, 0, 0), "move_mount": (-1, 1, -1, 1, 0),
    "mq_open": (1, 0, 0, 0), "msgget": (1, 0), "name_to_handle_at": (-1, 1, 0, 0, 0), "open_tree": (-1, 1, 0),
    "openat2": (-1, 1, 0, 0), "perf_event_open": (1, 0, 0, 0, 0), "personality": (0xFFFF_FFFF,),
    "pidfd_getfd": (-1, 0, 0), "pidfd_open": (1, 0), "pivot_root": (1, 1), "prctl": (3, 0, 0, 0, 0),
    "process_madvise": (-1, 0, 0, 0, 0), "ptrace": (0, 0, 0, 0), "quotactl": (0, 0, 0, 0), "readahead": (-1, 0, 0),
    "reboot": (0, 0, 0, 0), "request_key": (1, 1, 0, 0), "sched_setattr": (0, 0, 0), "sched_setscheduler": (0, 99, 0),
    "seccomp": (9, 0, 0), "semget": (1, 0, 0), "sendmmsg": (-1, 0, 0, 0), "sendmsg": (-1, 0, 0),
    "sethostname": (1, -1), "setns": (-1, 0), "setpriority": (9, 0, 0), "setresuid": (-1, -1, -1),
    "setsockopt": (-1, 0, 0, 0, 0), "shmget": (1, 0, 0), "shutdown": (-1, 0), "signalfd4": (-1, 1, 0, 0),
    "socket": (99, 0, 0), "socketpair": (99, 0, 0, 0), "splice": (-1, 0, -1, 0, 0, 0), "statfs": (1, 0),
    "swapon": (1, 0), "symlinkat": (1, -1, 1), "sysinfo": (0,), "syslog": (99, 0, 0), "tee": (-1, -1, 0, 0),
    "timer_create": (99, 0, 0), "timerfd_create": (99, 0), "umount2": (1, 0), "unshare": (0,),
    "userfaultfd": (-1,), "vmsplice": (-1, 0, 0, 0),
}  # fmt: skip


def attack() -> bool:
    return any([reached(name, *arguments) for name, arguments in CALLS.items()])
