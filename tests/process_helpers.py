"""Find processes, wait for them, and have them killed at a chosen point."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def descendants(root: int) -> list[int]:
    """Return the ids of all descendants of a process, also of those in other sessions."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    result, todo = [], [root]
    while todo:
        children = parents.get(todo.pop(), [])
        result += children
        todo += children
    return result


def processes_naming(folder: Path) -> list[int]:
    """Return the processes whose command line or environment contains a path: all processes of an agent do."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                pids += [int(entry.name)] if os.fsencode(folder) in words else []
    return pids


def wait_until(condition: Callable[[], object], seconds: float = 120.0, step: float = 0.05) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(step)
    return False


def alive(pids: list[int]) -> list[int]:
    def running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if running(pid)]


def kill_self(*_: object, **__: object) -> None:
    """Kill this process; replaces a function so that nothing after it happens."""
    os.kill(os.getpid(), signal.SIGKILL)


def assert_killed_in(work: Callable[[], object]) -> None:
    """Call ``work`` in a fork, and check that the fork was killed on the way."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
