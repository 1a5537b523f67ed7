"""Reads the CPU clocks and the limits of the judge's processes by their number. How long a simulator computes for a
step, and how busy another episode is, are things that a policy must not know."""

import os
import resource
import time

from kit import FACTS, any_works


def attack() -> bool:
    others = (*FACTS["processes"], FACTS["judge"], FACTS["sleeper"])
    clocks = [lambda pid=pid: time.clock_gettime((~pid << 3) | 2) for pid in others]
    limits = [lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_AS) for pid in others]
    cores = [lambda pid=pid: os.sched_getaffinity(pid) for pid in others]
    return any_works(*clocks, *limits, *cores, *[lambda pid=pid: os.sched_getscheduler(pid) for pid in others])
