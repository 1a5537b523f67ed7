"""Measures the speed of the fast environments, as the ratio of stock to fast step time on the same seeds and actions.

    python benchmarks/fast.py [SLUG ...]     median over episodes, alternating stock and fast, one core
    python benchmarks/fast.py --suite        core time of a whole Core16 run: 400 episodes of each task

A run's policies are neither random nor perfect, so the suite takes both: half of the episodes are played by uniformly
random actions, half by the hand-written policies of tests/oracles (random where there is none). A few episodes of each
are timed and scaled up. Timed is what the environment costs: make, reset and steps.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.fast.catalogue import CATALOGUE
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.splits import PaperSplits, Split
from evopolicygym.tasks.task import Task

EPISODES = 6
SUITE_EPISODES = 400
TIMED_EPISODES = 2
ORACLES = Path(__file__).parents[1] / "tests" / "oracles"


def actions(task: Task, seed: int) -> list[Any]:
    """Uniformly random, drawn in advance: both versions get the same, and drawing is not timed."""
    space = simulator.make(task, stock=True).action_space
    space.seed(seed)
    return [space.sample() for _ in range(task.horizon)]


def seconds_per_step(task: Task, seed: int, listed: list[Any], fast: bool) -> float:
    env = simulator.make(task, stock=not fast)
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


def oracle(task: Task) -> Any:
    """The class of the hand-written policy, or None."""
    targets = tomllib.loads((ORACLES / "targets.toml").read_text())
    slug = task.id.partition("/")[2]
    if slug not in targets:
        return None
    folder = ORACLES / targets[slug]["folder"]
    spec = importlib.util.spec_from_file_location(f"oracle_{slug}", folder / "policy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    spec.loader.exec_module(module)
    sys.path.remove(str(folder))
    return module.Policy


def environment_seconds(task: Task, seed: int, policy_class: Any, stock: bool) -> float:
    """One episode; what the policy costs is left out."""
    began = time.perf_counter()
    env = simulator.make(task, stock=stock)
    observation = simulator.reset(env, seed)
    took = time.perf_counter() - began
    space = env.action_space
    policy = policy_class(*simulator.schemas(task, env), task.env_meta()) if policy_class else None
    if policy:
        policy.reset(0)
    for _ in range(task.horizon):
        action = policy.act(observation) if policy else space.sample()
        began = time.perf_counter()
        observation, _, terminated, truncated, _ = env.step(action)
        took += time.perf_counter() - began
        if terminated or truncated:
            break
    env.close()
    return took


def suite() -> None:
    print(f"| task | stock core-seconds for {SUITE_EPISODES} episodes | fast |")
    print("|---|---|---|")
    totals = np.zeros(2)
    for task in core16().values():
        simulator.make(task).close()
        seconds = np.zeros(2)
        for episode in range(TIMED_EPISODES):
            seed = PaperSplits().seed(task.id, Split.TRAIN, episode)
            for policy_class in (None, oracle(task)):
                seconds += [environment_seconds(task, seed, policy_class, stock) for stock in (True, False)]
        seconds *= SUITE_EPISODES / (2 * TIMED_EPISODES)
        totals += seconds
        print(f"| {task.id} | {seconds[0]:.1f} | {seconds[1]:.1f} |", flush=True)
    print(f"| all | {totals[0]:.0f} | {totals[1]:.0f} |")
    print(f"\nstock / fast: {totals[0] / totals[1]:.1f}")


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if "--suite" in sys.argv:
        suite()
        return
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
