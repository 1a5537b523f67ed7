"""Speed of the fast environments, as the ratio of stock to fast step time on the same seeds and actions.

python benchmarks/fast.py [SLUG ...]     median over episodes, alternating stock and fast, one core
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

import gymnasium
import numpy as np

from evopolicygym.fast.catalogue import CATALOGUE, upgrade
from evopolicygym.tasks import simulator
from evopolicygym.tasks.files import core16
from evopolicygym.tasks.splits import PaperSplits, Split
from evopolicygym.tasks.task import Task

EPISODES = 6


def actions(task: Task, seed: int) -> list[Any]:
    """Uniformly random, drawn in advance: both versions get the same, and drawing is not timed."""
    space = simulator.make(task).action_space
    space.seed(seed)
    return [space.sample() for _ in range(task.horizon)]


def seconds_per_step(task: Task, seed: int, listed: list[Any], fast: bool) -> float:
    env = gymnasium.make(task.env_id, disable_env_checker=True)
    if fast:
        assert upgrade(env), task.env_id
    env.reset(seed=seed)
    steps, began = 0, time.perf_counter()
    for action in listed:
        _, _, terminated, truncated, _ = env.step(action)
        steps += 1
        if terminated or truncated:
            break
    took = time.perf_counter() - began
    env.close()
    return took / steps


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    chosen = sys.argv[1:] or [task.id.partition("/")[2] for task in core16().values() if task.env_id in CATALOGUE]
    print("| task | stock us per step | fast us per step | times faster |")
    print("|---|---|---|---|")
    for slug in chosen:
        task = core16()[f"core16/{slug}"]
        rows = []
        for episode in range(EPISODES):
            seed = PaperSplits().seed(task.id, Split.TRAIN, episode)
            listed = actions(task, seed)
            rows.append([seconds_per_step(task, seed, listed, fast) for fast in (False, True)])
        stock, fast = (1e6 * float(np.median(column)) for column in zip(*rows, strict=True))
        ratio = statistics.median(row[0] / row[1] for row in rows)
        print(f"| {slug} | {stock:.0f} | {fast:.0f} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
