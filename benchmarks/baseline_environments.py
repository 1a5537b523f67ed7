"""Compares steps per second of the environments behind `baseline curve` with those of Stable-Baselines3.

    python benchmarks/baseline_environments.py            needs the extra rl; prints that it is missing otherwise

The same number of environments plays random actions: ours in as many processes as there are cores, and the stock
environment in DummyVecEnv and SubprocVecEnv. Ours also compute features. Rounds alternate; medians are printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evopolicygym.baselines.environments import EnvironmentPool
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits

TASKS = ("acrobot", "half-cheetah", "bipedal-walker")


def stock_environment(task: str) -> Callable[[], Any]:
    return lambda: simulator.make(find_task(task), stock=True)


def speed(step: Callable[[], object], count: int, steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return count * steps / (time.perf_counter() - began)


def compare(task: str, count: int, processes: int, steps: int, rounds: int) -> dict[str, float]:
    """Return the median steps per second of each."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    controls = spaces_of(find_task(task)).controls
    random = np.random.default_rng(0)
    pool = EnvironmentPool(find_task(task), PaperSplits(), (0,), count, processes)
    dummy, subprocess = (kind([stock_environment(task)] * count) for kind in (DummyVecEnv, SubprocVecEnv))
    for envs in (pool, dummy, subprocess):
        envs.reset()

    def sampled(envs: Any) -> Any:
        return np.array([envs.action_space.sample() for _ in range(count)])

    steppers = {
        "ours": lambda: pool.step(random.uniform(-1.0, 1.0, size=(count, controls))),
        "DummyVecEnv": lambda: dummy.step(sampled(dummy)),
        "SubprocVecEnv": lambda: subprocess.step(sampled(subprocess)),
    }
    speeds: dict[str, list[float]] = {name: [] for name in steppers}
    for _ in range(rounds):
        for name, step in steppers.items():
            speeds[name].append(speed(step, count, steps))
    for envs in (pool, dummy, subprocess):
        envs.close()
    return {name: statistics.median(values) for name, values in speeds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=8)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if importlib.util.find_spec("stable_baselines3") is None:
        print("stable-baselines3 is not installed, so there is nothing to compare: pip install '.[rl]'")
        return 0
    print("| task | ours | DummyVecEnv | SubprocVecEnv |\n|---|---|---|---|")
    is_faster = True
    for name in TASKS:
        rates = compare(f"core16/{name}", options.environments, options.processes, options.steps, options.rounds)
        is_faster &= rates["ours"] > max(rates["DummyVecEnv"], rates["SubprocVecEnv"])
        print(f"| core16/{name} | " + " | ".join(f"{value:,.0f}" for value in rates.values()) + " |", flush=True)
    return 0 if is_faster else 1


if __name__ == "__main__":
    sys.exit(main())
