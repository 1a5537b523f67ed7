"""Play many runs, and run other commands, within a time limit.

Commands of one chain run one after another, chains side by side, each on cores of its own. Runs on the same hidden
cases (of one task, under one key) belong into one chain: hidden cases are not played while an agent on the same ones is
alive on the machine, so side by side they would wait for each other. A chain that would outlast the others on one core
gets more of them. The same call continues what was stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

COMMAND = [sys.executable, "-m", "evopolicygym.cli.main"]
TIME_IS_OVER = 3
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
STOP_S = 20.0  # that a command is given to stop, before it is told again
SUITE_OPTIONS = {  # of `run`, for each table of a suite file
    "splits": ("seeds", "validation_cases", "heldout_cases"),
    "defaults": ("budget", "text"),
}


@dataclass(frozen=True)
class BenchmarkRun:
    """One run of an agent on a task, with more options of `run`."""

    task: str
    agent: str
    seed: int
    runs: Path
    options: tuple[str, ...]
    cost: float = 1.0  # estimated, in any unit

    @property
    def folder(self) -> Path:
        return self.runs / f"{self.task.replace('/', '-')}__{self.agent}__s{self.seed}"

    @property
    def is_finished(self) -> bool:
        try:
            return json.loads((self.folder / "run.json").read_text())["outcome"] is not None
        except FileNotFoundError:
            return False

    def command(self, jobs: int) -> list[str]:
        """Return the command that plays the run, or continues it as it began."""
        if (self.folder / "ledger.jsonl").exists():
            return [*COMMAND, "run", "--resume", str(self.folder), "--no-anchors"]
        what = [self.task, "--agent", self.agent, "--seed", str(self.seed), "--run", str(self.folder)]
        return [*COMMAND, "run", *what, "--jobs", str(jobs), "--no-anchors", *self.options]


def suite_options(suite: Path) -> tuple[str, ...]:
    """Return the options of `run` for the runs of a suite file, but for its tasks, agents and seeds."""
    tables = tomllib.loads(suite.read_text())
    values = {name: tables[table][name] for table, names in SUITE_OPTIONS.items() for name in names}
    return tuple(part for name, value in values.items() for part in (f"--{name.replace('_', '-')}", str(value)))


def play_runs(chains: Iterable[list[BenchmarkRun]], cores: int, seconds: float) -> bool:
    """Play the runs that are not finished, on so many cores. Return whether all are finished now."""
    open_runs = [chain for chain in ([run for run in chain if not run.is_finished] for chain in chains) if chain]
    costs = [sum(run.cost for run in chain) for chain in open_runs]
    # The heaviest first: they take the longest, and the others fill what is left.
    shares = sorted(zip(shared_cores(costs, cores), open_runs, strict=True), key=lambda share: -share[0])
    codes = run_chains(
        [[run.command(jobs) for run in chain] for jobs, chain in shares], cores, seconds, [jobs for jobs, _ in shares]
    )
    return not any(codes)


def shared_cores(costs: Sequence[float], cores: int) -> list[int]:
    """Return how many cores each chain gets: one, or more if it costs more than its share of one."""
    return [max(1, int(cores * cost / sum(costs))) for cost in costs]


def run_chains(
    chains: list[list[list[str]]], cores: int, seconds: float, shares: Sequence[int] | None = None
) -> list[int]:
    """Run chains of commands, each on one core or its share of them, and stop them when the time is over. Return the
    exit code of each command."""
    deadline, free, taking = time.monotonic() + seconds, SimpleQueue[int](), Lock()
    allowed = sorted(os.sched_getaffinity(0))
    for number in range(cores):
        free.put(allowed[number % len(allowed)])

    def run(chain: list[list[str]], share: int) -> list[int]:
        with taking:  # one chain at a time, or two would wait for each other's cores
            taken = [free.get() for _ in range(share)]
        try:
            return [run_until(command, deadline, set(taken)) for command in chain]
        finally:
            for core in taken:
                free.put(core)

    with ThreadPoolExecutor(cores) as pool:
        return [code for codes in pool.map(run, chains, shares or [1] * len(chains)) for code in codes]


def run_until(command: list[str], deadline: float, cores: set[int]) -> int:
    """Run a command on these cores. When the time is over, tell it to stop, and after a while to stop at once."""
    if time.monotonic() > deadline:
        return TIME_IS_OVER
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | ONE_THREAD)
    os.sched_setaffinity(process.pid, cores)  # what it starts inherits this
    for limit in (deadline - time.monotonic(), STOP_S, STOP_S):
        try:
            return process.wait(max(0.0, limit))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    process.kill()
    process.wait()
    return TIME_IS_OVER
