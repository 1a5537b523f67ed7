"""What Landlock leaves an agent that has no private root (level B)."""

from __future__ import annotations

import os
from typing import Final

from evopolicygym.sandbox.agent.agent_sandbox import AgentSandbox, NetworkAccess
from evopolicygym.sandbox.agent.view import RESOLVER, VisibleFiles
from evopolicygym.sandbox.landlock import FileGrant

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
# Of a terminal the kernel asks only the owner: granted only where the agent is a user of its own.
TERMINALS: Final = ("/dev/ptmx", "/dev/pts")
# Facts about the machine, not about its processes.
FACTS: Final = tuple(
    f"/proc/{name}" for name in "cpuinfo filesystems loadavg meminfo stat swaps sys uptime version vmstat".split()
)
# Where a program finds the bounds of its stack; some (Bun 1.3) abort without. Resolved by the process that confines
# itself, so that it is the program's own map and nobody else's, not even that of what the program starts.
OWN_MEMORY_MAP: Final = "/proc/self/maps"
WHO: Final = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts")


def grant_of(cell: AgentSandbox, view: VisibleFiles, own_user: bool, ports: tuple[int, ...]) -> FileGrant:
    outside = cell.network is NetworkAccess.OPEN
    read = (*view.readable(), *FACTS, *WHO, *(RESOLVER if outside else ()))
    return FileGrant(
        read=(*_there(read), OWN_MEMORY_MAP),
        browse=_there(view.ways()),
        change=cell.writable,
        devices=_there((*DEVICES, *(TERMINALS if own_user else ()))),
        connect=None if outside else ports,
    )


def _there(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))
