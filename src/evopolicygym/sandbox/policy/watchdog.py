"""The watchdog: one thread of a judge process that kills a policy process which is late.

The judge waits for an answer in a plain blocking read, which costs nothing; this thread looks at the clocks now and
then. CPU time decides; wall time, a generous multiple, is a backstop.
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
from evopolicygym.sandbox.policy.failures import ErrorKind, PolicyFailure

TICK_S: Final = 0.05


@dataclass(eq=False, slots=True)
class ProcessWatch:
    """What is known of one policy process. ``question`` is the one that it has not yet answered, by its nonce: whoever
    asks pays for no clock."""

    pidfd: int
    episode_cpu_s: float
    question: bytes | None = None
    cpu_s: float = 0.0
    late: ErrorKind = ErrorKind.TIMEOUT
    verdict: PolicyFailure | None = None
    waited_s: float = 0.0
    _clock: int = 0
    _seen: bytes | None = None
    _cpu_then: float = 0.0
    _wall_then: float = 0.0

    def __post_init__(self) -> None:
        self._clock = (~_pid_of(self.pidfd) << 3) | 2  # the kernel's name for the CPU clock of a process

    def expect_within(self, cpu_s: float, late: ErrorKind) -> None:
        """From now on, until said otherwise, this much CPU time may pass before an answer."""
        self.cpu_s, self.late = cpu_s, late

    def look(self) -> None:
        """Time is counted from the first look at a question, so it is at most one tick too generous."""
        question, now = self.question, time.monotonic()
        if question is None:
            return
        if question != self._seen:
            self._seen, self._cpu_then, self._wall_then = question, self._cpu_now(), now
        elif self._cpu_now() - self._cpu_then > self.cpu_s:
            self._kill(self.late, f"no answer within {self.cpu_s:g} s of CPU time")
        if now - self._wall_then > self.cpu_s * WALL_FACTOR:
            self._kill(self.late, f"no answer within {self.cpu_s * WALL_FACTOR:g} s of wall time")
        self.waited_s += TICK_S  # only while a question is pending: what the simulator takes is not the policy's
        if self.waited_s > self.episode_cpu_s * WALL_FACTOR:
            wall_s = self.episode_cpu_s * WALL_FACTOR
            self._kill(ErrorKind.TIMEOUT, f"the answers of this episode took more than {wall_s:g} s of wall time")

    def _cpu_now(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0  # it has just ended; the pipe says so next

    def _kill(self, kind: ErrorKind, text: str) -> None:
        if self.verdict is None:
            self.verdict = PolicyFailure(kind, text)
            with suppress(ProcessLookupError):  # it has just ended by itself
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class Watchdog:
    """Looks at every watched process once a tick."""

    def __init__(self) -> None:
        self._watched: set[ProcessWatch] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def watch(self, watch: ProcessWatch) -> None:
        with self._lock:
            self._watched.add(watch)

    def leave(self, watch: ProcessWatch) -> None:
        """After this returns the watch is not looked at, so that its descriptor can be closed."""
        with self._lock:
            self._watched.discard(watch)

    def _run(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                for watch in self._watched:
                    watch.look()


@cache
def watchdog() -> Watchdog:
    """Of this process; started when the first policy is."""
    return Watchdog()


def _pid_of(pidfd: int) -> int:
    """The process's pid as seen from here; the zygote's own number for it is of another namespace."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
