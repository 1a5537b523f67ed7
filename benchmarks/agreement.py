"""Checks whether two kinds of machines give the same bits.

On every Core16 task it plays a policy whose next action follows from a hash of everything that it has observed: one
different bit anywhere gives a different episode.

``python benchmarks/agreement.py`` compares this machine with the one that wrote agreement.json, ``--write`` replaces
that file. Exit code 1 when a task differs. docs/reproducibility.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from evopolicygym.execution.engine import PUBLISHABLE, LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.ids import machine_facts
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

RECORDED: Final = Path(__file__).with_suffix(".json")
CASES: Final = 8
POLICY: Final = """
import hashlib
import numpy as np

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.space = action_space
    def reset(self, episode_index):
        self.seen = hashlib.sha256()
    def act(self, obs):
        self.look(obs)
        draw = np.random.default_rng(int.from_bytes(self.seen.digest()[:8], "little"))
        if self.space["type"] == "Discrete":
            return int(draw.integers(self.space["n"])) + self.space["start"]
        low, high = np.array(self.space["low"]), np.array(self.space["high"])
        return (low + (high - low) * draw.random(self.space["shape"])).astype(self.space["dtype"])
    def look(self, obs):
        if isinstance(obs, dict):
            for key in sorted(obs):
                self.look(obs[key])
        else:
            self.seen.update(obs.encode() if isinstance(obs, str) else np.asarray(obs).tobytes())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace agreement.json")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    levels = (*PUBLISHABLE, Level.NONE)  # the policy is ours, and bits do not depend on the level
    played = {task.id: returns(task, options.jobs, levels) for task in map(_task, CORE16_ORDER)}
    here = {"machine": machine_facts() | {"cpu": _cpu()}, "returns": played}
    if options.write:
        RECORDED.write_text(json.dumps(here, indent=1) + "\n")
    sys.exit(compare(json.loads(RECORDED.read_text()), here))


def _task(slug: str) -> Task:
    return core16()[f"core16/{slug}"]


def returns(task: Task, jobs: int, levels: tuple[Level, ...], count: int = CASES) -> list[str]:
    """As hexadecimal: every bit counts."""
    with tempfile.TemporaryDirectory() as folder, LocalEngine(task, jobs, levels) as engine:
        Path(folder, "policy.py").write_text(POLICY)
        checkpoint = engine.store.snapshot(Path(folder))
        chosen = cases(PaperSplits(), task.id, Split.TRAIN, list(range(count)))
        results = {
            result.number: result for result in engine.run(Episode(i, checkpoint, c) for i, c in enumerate(chosen))
        }
    ordered = [results[number] for number in range(count)]
    assert all(isinstance(result, EpisodeResult) and result.error is None for result in ordered), ordered
    return [f"{result.score.hex()} {result.length}" for result in ordered if isinstance(result, EpisodeResult)]


def compare(recorded: dict[str, Any], here: dict[str, Any]) -> int:
    for name, facts in (("recorded on", recorded["machine"]), ("played on", here["machine"])):
        print(f"{name}: {facts['cpu']}, {facts['libc']}, Python {facts['python']}")
    differing = [task for task, values in here["returns"].items() if recorded["returns"][task] != values]
    for task in here["returns"]:
        print(f"{task:35} {'differs' if task in differing else 'equal to the bit'}")
    return 1 if differing else 0


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    main()
