"""Measures how busy a suite keeps the cores while agents wait for their models, with four runs of a waiting agent.

It also measures the price of the rule that hidden cases are never played while an agent on the same cases is alive.

    python benchmarks/suite.py [TASK...]

The agent is a program that sleeps before each submission, as one that waits for its model. *Busy* is the share of the
machine's core time that was not idle, by the kernel's count, over the moments in which some episode waited for a slot;
*overall* is the same over the whole time of the suite. Each number of agents is measured three times in one go:

- with the rule, one task: all runs share their cases, so hidden scoring waits for the last agent of each batch;
- without the rule, one task: each run has cases of its own, by a sealing key of its own, and no run waits for another;
- with the rule, four tasks: one run each, as the plan of a suite arranges it if there are enough tasks.

The first two are the same work, and their ratio is the price. Run it on a quiet machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from evopolicygym.runs.settings import CORES, Seeds
from evopolicygym.suites.file import PlannedRun, Suite, plan
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.scheduler import Scheduler
from evopolicygym.tasks.sealing import create_key

RUNS = 4
TASKS = ("core16/half-cheetah", "core16/reacher", "core16/pusher", "core16/acrobot")
THINKING_S = 3
SAMPLE_S = 0.05
SUBMISSIONS = 8
AGENT = (
    "for i in $(seq {submissions}); do "
    "sleep $(({thinking} + EVOPOLICYGYM_SEED % 2)); echo '# '$i >> system/policy.py; python3 submit.py 0-7; done"
)
SUITE = """
name = "thinkers"
tasks = {tasks}
repeats = {repeats}
[splits]
seeds = "sealed"
seal_key = "{key}"
[defaults]
budget = {budget}
[agents.thinker]
name = "command"
command = ["/bin/sh", "-c", "{agent}"]
"""


@dataclass
class Cores:
    """Core time while work was queued and in all, in the kernel's ticks."""

    busy: int = 0
    total: int = 0
    queued_s: float = 0.0
    first: tuple[int, int] = field(default_factory=lambda: ticks())
    last: tuple[int, int] = field(default_factory=lambda: ticks())

    def sample(self, is_queued: bool) -> None:
        now = ticks()
        if is_queued:
            self.busy += now[0] - self.last[0]
            self.total += now[1] - self.last[1]
            self.queued_s += SAMPLE_S
        self.last = now

    @property
    def while_queued(self) -> str:
        return f"{self.busy / self.total:.0%}" if self.total else "-"

    @property
    def overall(self) -> str:
        return f"{(self.last[0] - self.first[0]) / max(1, self.last[1] - self.first[1]):.0%}"


def ticks() -> tuple[int, int]:
    """Busy and all, over the cores that this process may use (`taskset -c 0,1` measures two of many)."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    counts = [[int(text) for text in row[1:9]] for row in rows if row[0] in names]
    total = sum(map(sum, counts))
    return total - sum(row[3] + row[4] for row in counts), total


async def work(suite: Suite, planned: list[PlannedRun], root: Path, parallel_runs: int) -> tuple[float, Cores]:
    folder = SuiteFolder(root)
    folder.make()
    scheduler = Scheduler(folder, planned, suite.cap, CORES, parallel_runs)
    cores, began = Cores(), time.monotonic()

    async def watch() -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            cores.sample(scheduler.is_work_queued)

    watching = asyncio.create_task(watch())
    await scheduler.run(lambda: None)
    watching.cancel()
    wall_s = time.monotonic() - began
    assert all(row.is_over for row in scheduler.status.rows()), "a run has no score"
    return wall_s, cores


def key(scratch: Path, name: str) -> Path:
    path = scratch / f"{name}.key"
    if not path.exists():
        create_key(path)
    return path


def with_own_cases(planned: PlannedRun, scratch: Path) -> PlannedRun:
    sealed = {"seeds": Seeds.SEALED, "seal_key": key(scratch, planned.name)}
    return replace(planned, settings=planned.settings.model_copy(update=sealed))


def sides(tasks: tuple[str, ...], scratch: Path) -> Iterator[tuple[str, Suite, list[PlannedRun]]]:
    """What is compared: its name, and the runs."""
    shared = suite(tasks[:1], RUNS, scratch)
    yield "with, one task", shared, plan(shared)
    yield "without, one task", shared, [with_own_cases(run, scratch) for run in plan(shared)]
    many = suite(tasks, RUNS // len(tasks), scratch)
    yield f"with, {len(tasks)} tasks", many, plan(many)


def suite(tasks: tuple[str, ...], repeats: int, scratch: Path) -> Suite:
    path = scratch / "thinkers.toml"
    agent = AGENT.format(thinking=THINKING_S, submissions=SUBMISSIONS)
    facts = {"tasks": json.dumps(tasks), "repeats": repeats, "agent": agent, "budget": 8 * SUBMISSIONS}
    path.write_text(SUITE.format(key=key(scratch, "shared"), **facts))
    return Suite.read(path)


def main() -> None:
    tasks = tuple(sys.argv[1:]) or TASKS
    print(
        f"{RUNS} runs on {tasks[0]}, {SUBMISSIONS} submissions of 8 episodes each, {THINKING_S} to "
        f"{THINKING_S + 1} s of thinking before each, {CORES} cores"
    )
    print("| agents at a time | rule | wall s | against no rule | work queued s | busy while queued | busy overall |")
    print("|---|---|---|---|---|---|---|")
    for parallel_runs in (1, 2, 4):
        rows = []
        with tempfile.TemporaryDirectory() as scratch:
            for number, (name, made, planned) in enumerate(sides(tasks, Path(scratch))):
                rows.append((name, *asyncio.run(work(made, planned, Path(scratch, str(number)), parallel_runs))))
        base = rows[1][1]
        for name, wall_s, cores in rows:
            ratio = f"{wall_s / base:.2f}" if "one task" in name else "-"
            measured = f"{cores.queued_s:.0f} | {cores.while_queued} | {cores.overall}"
            print(f"| {parallel_runs} | {name} | {wall_s:.0f} | {ratio} | {measured} |", flush=True)


if __name__ == "__main__":
    main()
