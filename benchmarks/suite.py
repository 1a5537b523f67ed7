"""Does a suite keep the cores busy while agents think? Four runs of an agent that mostly waits, as one suite and one
after another.

    python benchmarks/suite.py [TASK]

The agent is a program that sleeps before each submission, as one that waits for its model. *Busy* is the share of the
machine's core time that was not idle, by the kernel's count, over the moments in which some episode waited for a slot.
Run it on a quiet machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from evopolicygym.runs.settings import CORES
from evopolicygym.suites.file import Suite
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.foreman import Foreman
from evopolicygym.suites.plan import plan

THINKING_S = 3
SAMPLE_S = 0.05
AGENT = "for i in 1 2 3 4 5 6 7 8; do sleep {thinking}; echo '# '$i >> system/policy.py; python3 submit.py 0-7; done"
SUITE = """
name = "thinkers"
tasks = ["{task}"]
repeats = 4
[splits]
seeds = "paper"
[defaults]
budget = 64
[agents.thinker]
name = "command"
command = ["/bin/sh", "-c", "{agent}"]
"""


@dataclass
class Cores:
    """Core time while work was queued, in the kernel's ticks."""

    busy: int = 0
    total: int = 0
    queued_s: float = 0.0
    _last: tuple[int, int] = field(default_factory=lambda: ticks())

    def sample(self, is_queued: bool) -> None:
        now = ticks()
        if is_queued:
            self.busy += now[0] - self._last[0]
            self.total += now[1] - self._last[1]
            self.queued_s += SAMPLE_S
        self._last = now


def ticks() -> tuple[int, int]:
    """Busy and all, over all cores."""
    numbers = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle, sum(numbers)


async def work(suite: Suite, root: Path, parallel_runs: int) -> tuple[float, Cores]:
    folder = SuiteFolder(root)
    folder.make()
    foreman = Foreman(folder, plan(suite), suite.cap, CORES, parallel_runs)
    cores, began = Cores(), time.monotonic()

    async def watch() -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            cores.sample(foreman.is_work_queued)

    watching = asyncio.create_task(watch())
    await foreman.work(lambda: None)
    watching.cancel()
    wall_s = time.monotonic() - began
    assert all(row.is_over for row in foreman.survey.rows()), "a run has no score"
    return wall_s, cores


def main() -> None:
    task = sys.argv[1] if len(sys.argv) > 1 else "core16/half-cheetah"
    print(
        f"four runs on {task}, 8 submissions of 8 episodes each, {THINKING_S} s of thinking before each, {CORES} cores"
    )
    print("| agents at a time | wall s | against one at a time | work queued s | cores busy while queued |")
    print("|---|---|---|---|---|")
    base = None
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "thinkers.toml")
        path.write_text(SUITE.format(task=task, agent=AGENT.format(thinking=THINKING_S)))
        for parallel_runs in (1, 2, 4):
            wall_s, cores = asyncio.run(work(Suite.read(path), Path(scratch, str(parallel_runs)), parallel_runs))
            base = base or wall_s
            busy = f"{cores.busy / cores.total:.0%}" if cores.total else "-"
            print(
                f"| {parallel_runs} | {wall_s:.0f} | {base / wall_s:.2f} | {cores.queued_s:.0f} | {busy} |", flush=True
            )


if __name__ == "__main__":
    main()
