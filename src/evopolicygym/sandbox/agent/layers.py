"""The layers laid on the agent's own process, in their order, just before it becomes the program."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from evopolicygym.sandbox import kernel, landlock, seccomp
from evopolicygym.sandbox.agent import filter as refusals
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.privileges import become_nobody, tasks_of

OUT_OF_MEMORY_FIRST: Final = "500"


@dataclass(frozen=True)
class Layers:
    """``uid``: a user of its own, when the judge is root. ``grant``: for Landlock, at level B."""

    level: AgentLevel
    network: NetworkAccess
    uid: int | None
    processes: int
    grant: landlock.FileGrant | None
    max_landlock_abi: int | None

    def lay(self) -> None:
        """Raises, naming what did not take; then the program must not be started."""
        _plain_signals()
        _limit(resource.RLIMIT_CORE, 0)
        die_first()
        if self.level is AgentLevel.NONE:
            return
        _limit(resource.RLIMIT_NPROC, self.processes + self._others())
        kernel.empty_bounding_set()
        if self.uid is not None:
            become_nobody(self.uid)
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        abi = self._landlock()
        seccomp.apply(refusals.build(self._refusals(abi)))

    def _others(self) -> int:
        """The kernel counts by user, and by user namespace: elsewhere the judge's are not held against the agent."""
        return tasks_of(os.getuid()) if self.level is AgentLevel.B and self.uid is None else 0

    def _landlock(self) -> int | None:
        if self.grant is not None:
            return landlock.confine(self.grant, self.max_landlock_abi)
        if self.network is NetworkAccess.OPEN:  # then abstract sockets are the host's
            landlock.scope()
        return None

    def _refusals(self, abi: int | None) -> refusals.Rules:
        private = self.level is AgentLevel.A
        return refusals.Rules(private, not private and self.network is not NetworkAccess.OPEN, abi)


def _plain_signals() -> None:
    """Python ignores some, and what is ignored stays so in the program."""
    for number in signal.valid_signals():
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def die_first() -> None:
    """When memory runs out, the agent goes before the judge."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OUT_OF_MEMORY_FIRST)
