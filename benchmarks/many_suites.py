"""Run commands within a time limit, among them many small suites with one slot each.

Suites whose hidden cases differ (of different tasks, or under different keys) run side by side, one on each core.
Suites with the same cases would wait for each other: hidden cases are not played while an agent on the same ones is
alive on the machine. They belong into one suite, which orders its runs so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

COMMAND = [sys.executable, "-m", "evopolicygym.cli.main"]
TIME_IS_OVER = 3
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
STOP_S = 20.0  # that a command is given to stop, before it is told again


@dataclass(frozen=True)
class TaskSuite:
    """A suite file, of which one task is played; ``settings`` replace values of the file."""

    file: Path
    folder: Path
    settings: dict[str, str]

    def command(self) -> list[str]:
        chosen = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        slots = ["--jobs", "1", "--parallel-runs", "1", "--no-anchors"]
        return [*COMMAND, "suite", "run", str(self.file), "--folder", str(self.folder), *slots, *chosen]


def play_suites(suites: list[TaskSuite], at_once: int, seconds: float) -> int:
    """Play suites, ``at_once`` of them at a time. Return how many are complete. The others can be continued."""
    return run_all([suite.command() for suite in suites], at_once, seconds).count(0)


def run_all(commands: list[list[str]], at_once: int, seconds: float) -> list[int]:
    """Run commands, ``at_once`` of them at a time and each on a core of its own as long as there are enough, and stop
    them when the time is over. Return their exit codes."""
    deadline, cores = time.monotonic() + seconds, SimpleQueue[int]()
    allowed = sorted(os.sched_getaffinity(0))
    for number in range(at_once):
        cores.put(allowed[number % len(allowed)])

    def run(command: list[str]) -> int:
        core = cores.get()
        try:
            return run_until(command, deadline, core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, commands))


def run_until(command: list[str], deadline: float, core: int | None = None) -> int:
    """Run a command, on one core if one is named. When the time is over, tell it to stop, and after a while to stop at
    once."""
    if time.monotonic() > deadline:
        return TIME_IS_OVER
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | ONE_THREAD)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})  # what it starts inherits this
    for limit in (deadline - time.monotonic(), STOP_S, STOP_S):
        try:
            return process.wait(max(0.0, limit))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    process.kill()
    process.wait()
    return TIME_IS_OVER
