"""Compares steps per second of the environments behind `baseline curve` with those of Stable-Baselines3.

    python benchmarks/baseline_environments.py            needs the extra rl; prints that it is missing otherwise
    python benchmarks/baseline_environments.py --task ant --rounds 5

Eight environments play the same random actions, until an episode ends and then the next one: ours as PPO steps them in
`baseline curve` on this machine, with features in place of observations, and the stock environment as `gymnasium.make`
returns it, in DummyVecEnv and SubprocVecEnv with their defaults. Stable-Baselines3 cannot read the text in observations
of MiniGrid, so that the stock environment has the ImgObsWrapper of its tutorials. Rounds alternate; the best round of
each is printed: steps per second, and microseconds of CPU time for a step in all processes together, which other work
on the machine changes less. Exits with 1 if ours have fewer steps per second on any task.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.agents.builtin.learners.networks import NetworkShape
from evopolicygym.baselines.encoding import actions_maker
from evopolicygym.baselines.environments import EnvironmentPool, fastest_processes
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits

TASKS = (
    "mountain-car-continuous acrobot four-rooms reacher half-cheetah bipedal-walker parking ant fetch-push roundabout "
    "car-racing"
).split()
DIFFERENT_ACTIONS = 200
HEADER = """\
| task | processes | ours | DummyVecEnv | SubprocVecEnv | ours / best of theirs | CPU us: ours | Dummy | Subproc |
|---|---|---|---|---|---|---|---|---|"""


def stock_environment(name: str) -> Callable[[], Any]:
    def make() -> Any:
        env = simulator.make(find_task(name), stock=True)
        if "minigrid" in find_task(name).requires:
            from minigrid import wrappers

            wrap: Any = wrappers.ImgObsWrapper
            return wrap(env)
        return env

    return make


def random_actions(name: str, count: int) -> tuple[list[Any], list[Any]]:
    """Return the same actions for ours, from -1 to 1, and for the stock environment, from its lowest to its highest."""
    spaces, random = spaces_of(find_task(name)), np.random.default_rng(0)
    controls = random.uniform(-1.0, 1.0, size=(DIFFERENT_ACTIONS, count, spaces.controls)).astype(np.float32)
    stock = [np.array(actions_maker(spaces.action)(rows.astype(float))) for rows in controls]
    return list(controls.argmax(axis=2)) if spaces.is_choice else list(controls), stock


def our_environments(name: str, count: int, most: int) -> tuple[Any, EnvironmentPool]:
    """Return what PPO steps in `baseline curve`, and the environments behind it."""
    from evopolicygym.baselines.rl import make_vec_env

    task, splits = find_task(name), PaperSplits()
    spaces, processes = spaces_of(task), fastest_processes(task, splits, count, most)
    pool = EnvironmentPool(task, splits, (0,), count, processes)
    return make_vec_env(pool, NetworkShape.of(spaces, ()), spaces.is_choice), pool


class Contestant:
    """Environments with their actions, and the best that they reached."""

    def __init__(self, envs: Any, actions: list[Any], processes: list[Any]) -> None:
        self.envs, self._actions = envs, itertools.cycle(actions)
        self._pids = [os.getpid(), *(process.pid for process in processes)]
        self.steps_per_s, self.cpu_us = 0.0, float("inf")
        envs.reset()
        envs.step(next(self._actions))

    def play(self, seconds: float) -> None:
        """Play for so many seconds."""
        cpu, began, duration, steps = self._cpu_s(), time.perf_counter(), 0.0, 0
        while duration < seconds:
            self.envs.step(next(self._actions))
            steps += self.envs.num_envs
            duration = time.perf_counter() - began
        self.steps_per_s = max(self.steps_per_s, steps / duration)
        self.cpu_us = min(self.cpu_us, 1e6 * (self._cpu_s() - cpu) / steps)

    def _cpu_s(self) -> float:
        """Return the CPU seconds of the main threads of all processes."""
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in self._pids) / 1e9


def compare(name: str, options: argparse.Namespace) -> tuple[int, list[Contestant]]:
    """Return the number of our processes; and ours, DummyVecEnv and SubprocVecEnv after all rounds."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    count = options.environments
    ours, pool = our_environments(name, count, options.jobs)
    our_actions, stock_actions = random_actions(name, count)
    dummy, subprocess = (kind([stock_environment(name)] * count) for kind in (DummyVecEnv, SubprocVecEnv))
    contestants = [
        Contestant(ours, our_actions, pool.processes),
        Contestant(dummy, stock_actions, []),
        Contestant(subprocess, stock_actions, subprocess.processes),
    ]
    for _ in range(options.rounds):
        for contestant in contestants:
            contestant.play(options.seconds)
    for contestant in contestants:
        contestant.envs.close()
    return 1 + len(pool.processes), contestants


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="only this task; repeatable")
    parser.add_argument("--environments", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes of ours at most")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round of each")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    if importlib.util.find_spec("stable_baselines3") is None:
        print("stable-baselines3 is not installed, so there is nothing to compare: pip install '.[rl]'")
        return 0
    print(HEADER)
    slower = []
    for name in options.task or TASKS:
        processes, contestants = compare(f"core16/{name}", options)
        ours, *theirs = contestants
        ratio = ours.steps_per_s / max(other.steps_per_s for other in theirs)
        speeds = " | ".join(f"{contestant.steps_per_s:,.0f}" for contestant in contestants)
        costs = " | ".join(f"{contestant.cpu_us:,.1f}" for contestant in contestants)
        print(f"| {name} | {processes} | {speeds} | {ratio:.2f} | {costs} |", flush=True)
        slower += [name] if ratio <= 1.0 else []
    if slower:
        print(f"slower: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
