"""Signals other processes, by every call that can. The signal is number 0, which asks only whether a real one would
be delivered."""

import os

from kit import FACTS, any_works, syscall


def by_pidfd(pid: int) -> bool:
    handle = syscall("pidfd_open", pid, 0)
    return handle >= 0 and syscall("pidfd_send_signal", handle, 0, None, 0) == 0


def attack() -> bool:
    others = (FACTS["sleeper"], FACTS["judge"], os.getppid(), *FACTS["processes"])
    information = (0).to_bytes(128, "little")
    return any_works(
        lambda: os.kill(-1, 0),
        *[lambda pid=pid: os.kill(pid, 0) for pid in others if pid],
        *[lambda pid=pid: syscall("tkill", pid, 0) == 0 for pid in others if pid],
        *[lambda pid=pid: syscall("tgkill", pid, pid, 0) == 0 for pid in others if pid],
        *[lambda pid=pid: syscall("rt_sigqueueinfo", pid, 0, information) == 0 for pid in others if pid],
        *[lambda pid=pid: by_pidfd(pid) for pid in others if pid],
    )
