"""End a whole process tree, without namespaces: also processes that made their own session, forked twice, or fork
faster than we can look.

Works for a process that is a subreaper (``adopt_orphans``): orphans among its descendants become its children, so that
"no child left" means that no descendant is left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from evopolicygym.sandbox import kernel

KILL_TREE_S: Final = 20.0
STOP_PASSES: Final = 20


def adopt_orphans() -> None:
    """Make this process a subreaper."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def end_tree(uid: int | None) -> bool:
    """Kill and reap all descendants of this process. ``uid``: a user that only the descendants have, if there is one.
    Returns whether all of them are gone."""
    deadline = time.monotonic() + KILL_TREE_S
    while time.monotonic() < deadline:
        if uid is not None:
            _kill_user(uid)
        _signal(_stop_descendants(), signal.SIGKILL)
        if _all_reaped():
            return True
    return False


def _stop_descendants() -> set[int]:
    """Stop before killing: stopped processes still count against the limit of processes, so that a fork bomb runs into
    the limit and all of its processes are there to be killed."""
    stopped: set[int] = set()
    for _ in range(STOP_PASSES):
        fresh = set(descendants(os.getpid())) - stopped
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return tree[1:]


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_user(uid: int) -> None:
    """Kill every process of ``uid`` with one system call, which no fork can outrun."""
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def _all_reaped() -> bool:
    """Reap children, waiting a moment for those just killed. Returns whether none is left, dead or alive."""
    for _ in range(50):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.002)
    return False
