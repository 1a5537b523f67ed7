"""Takes more of the machine than its share: priority, real-time class, every core."""

import os

from kit import any_works, syscall


def attack() -> bool:
    return any_works(
        lambda: os.sched_setaffinity(0, range(os.cpu_count())),
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
        lambda: os.setpriority(os.PRIO_PROCESS, 0, 0),
        lambda: os.nice(1),
        lambda: syscall("ioprio_set", 1, 0, 2 << 13 | 4) == 0,
    )
