"""Opens the file that moves processes between control groups, and with them their limits (and writes nothing)."""

import os

from kit import any_works

ROOT = True
GROUPS = ("", "/unified", "/memory", "/pids", "/cpu", "/system.slice", "/user.slice")


def attack() -> bool:
    files = [f"/sys/fs/cgroup{group}/cgroup.procs" for group in GROUPS]
    return any_works(*[lambda path=path: os.close(os.open(path, os.O_WRONLY)) for path in files])
