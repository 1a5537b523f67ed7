"""The watchdog: one thread of a judge process that kills a policy process which is late.

The judge waits for an answer in a plain blocking read, which costs nothing; this thread checks the clocks at intervals.
CPU time decides; wall time, a generous multiple, is a backstop.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

from evopolicygym.limits import WALL_FACTOR
from evopolicygym.sandbox.policy.protocol import ErrorKind, PolicyFailure

TICK_S: Final = 0.05


@dataclass(eq=False, slots=True)
class ProcessWatch:
    """The deadlines of one policy process. ``question`` is the nonce of the request that it has not answered yet.
    Setting it is all that the hot path does: it reads no clock."""

    pidfd: int
    episode_cpu_s: float
    question: bytes | None = None
    cpu_s: float = 0.0
    late: ErrorKind = ErrorKind.TIMEOUT
    verdict: PolicyFailure | None = None
    waited_s: float = 0.0
    _clock: int = 0
    _checked: bytes | None = None
    _cpu_then: float = 0.0
    _wall_then: float = 0.0

    def __post_init__(self) -> None:
        self._clock = (~_pid_of(self.pidfd) << 3) | 2  # the kernel's name for the CPU clock of a process

    def expect_within(self, cpu_s: float, late: ErrorKind) -> None:
        """Allow ``cpu_s`` of CPU time for each answer from now on. ``late`` is the kind of failure otherwise."""
        self.cpu_s, self.late = cpu_s, late

    def check(self) -> None:
        """Check the deadlines. Time is counted from the first check after a request, so it is at most one tick too
        generous."""
        question, now = self.question, time.monotonic()
        if question is None:
            return
        if question != self._checked:
            self._checked, self._cpu_then, self._wall_then = question, self.cpu_now(), now
        elif self.cpu_now() - self._cpu_then > self.cpu_s:
            self._kill(self.late, f"no answer within {self.cpu_s:g} s of CPU time")
        if now - self._wall_then > self.cpu_s * WALL_FACTOR:
            self._kill(self.late, f"no answer within {self.cpu_s * WALL_FACTOR:g} s of wall time")
        self.waited_s += TICK_S  # only while an answer is due: the simulator's time is not the policy's
        if self.waited_s > self.episode_cpu_s * WALL_FACTOR:
            wall_s = self.episode_cpu_s * WALL_FACTOR
            self._kill(ErrorKind.TIMEOUT, f"the answers of this episode took more than {wall_s:g} s of wall time")

    def cpu_now(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0  # the process has just ended; the pipe ends next

    def _kill(self, kind: ErrorKind, text: str) -> None:
        if self.verdict is None:
            self.verdict = PolicyFailure(kind, text)
            with suppress(ProcessLookupError):  # it has ended by itself
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class Watchdog:
    """A thread that checks every watched process once per tick."""

    def __init__(self) -> None:
        self._watched: set[ProcessWatch] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def watch(self, watch: ProcessWatch) -> None:
        with self._lock:
            self._watched.add(watch)

    def leave(self, watch: ProcessWatch) -> None:
        """Stop watching. After this returns the descriptor can be closed."""
        with self._lock:
            self._watched.discard(watch)

    def _run(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                for watch in self._watched:
                    watch.check()


@cache
def watchdog() -> Watchdog:
    """Return the watchdog of this process, started when the first policy is."""
    return Watchdog()


def _pid_of(pidfd: int) -> int:
    """Return the pid as seen from here; the zygote sees another one, in its own namespace."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
