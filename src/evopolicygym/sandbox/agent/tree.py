"""The end of a process tree, also of what made its own session, forked twice, or forks faster than one can look.

Works for a process that is a subreaper: whoever loses its parent becomes its child, so that "no child left" means that
nobody is left. No namespace is needed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from evopolicygym.sandbox import kernel

PATIENCE_S: Final = 20.0
PASSES: Final = 20


def adopt_orphans() -> None:
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def end_tree(uid: int | None) -> bool:
    """Kill and bury all descendants. ``uid``: a user that is theirs alone. Returns whether all of them are gone."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if uid is not None:
            _kill_user(uid)
        _signal(_stop(), signal.SIGKILL)
        if _bury():
            return True
    return False


def _stop() -> set[int]:
    """Stopped processes count against their limit of processes: a fork bomb runs into it, and is all there to kill."""
    stopped: set[int] = set()
    for _ in range(PASSES):
        fresh = set(descendants(os.getpid())) - stopped
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found[1:]


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_user(uid: int) -> None:
    """In one stroke, which no fork can outrun: all that this user may signal is what this user runs."""
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def _bury() -> bool:
    """Whether there is no child left, dead or alive. Those just killed are given a moment."""
    for _ in range(50):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.002)
    return False
