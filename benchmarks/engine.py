"""Measures the cost of isolation as ratios: isolated episodes against a bare loop of the same policy on the same cases.

    python benchmarks/engine.py [SLUG ...]            as it ships, and with stock environments, against bare stock
    python benchmarks/engine.py --fast [SLUG ...]     their fast versions, on both sides
    python benchmarks/engine.py --linear [SLUG ...]   a policy that computes, on tasks whose observation is one array
    python benchmarks/engine.py --lean [SLUG ...]     a bare loop without what the engine leaves out of a step
    python benchmarks/engine.py --scaling [SLUG ...]  two jobs against one

Bare: `env.step(policy.act(obs))` in one process, pinned to one core. Isolated: the engine with one job, same core.
Episodes alternate between the two, so that both meet the same machine; the ratio of a task is the median over cases.
Run it on a quiet machine: an isolated episode has two processes that can be descheduled, a bare loop one.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.probes import measure_jail
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.splits import Case, PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

SECONDS_PER_TASK = 12.0
SCALING_EPISODES = 8
CONSTANT = '''
"""The cheapest policy there is: all that is measured beside the environment is the exchange."""
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        discrete = action_space["type"] == "Discrete"
        self.action = 1 if discrete else np.zeros(action_space["shape"], action_space["dtype"])

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return self.action
'''
LINEAR = '''
"""A matrix product and a tanh: in a process of its own, numpy's code is cold each time."""
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.discrete = action_space["type"] == "Discrete"
        size = action_space["n"] if self.discrete else action_space["shape"][0]
        self.gains = np.linspace(-0.02, 0.02, size * obs_space["shape"][0]).reshape(size, -1)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        action = np.tanh(self.gains @ obs)
        return int(action.argmax()) if self.discrete else action.astype(np.float32)
'''
LINEAR_TASKS = ["acrobot", "bipedal-walker", "reacher", "half-cheetah", "ant", "pusher"]


def bare(task: Task, source: str, case: Case, stock: bool, lean: bool = False) -> tuple[float, float, float]:
    """Seconds from the first reset to the last step, seconds of the whole episode, and the return."""
    whole = time.perf_counter()
    scope: dict[str, Any] = {}
    exec(source, scope)
    env = simulator.make(task, stock=stock)
    policy = scope["Policy"](*simulator.schemas(task, env), task.env_meta())
    began, total, done, steps = time.perf_counter(), 0.0, False, 0
    observation = simulator.reset(env, case.seed)
    step = simulator.stepper(task, env) if lean else env.step
    policy.reset(0)
    while not done and steps < task.horizon:
        observation, reward, terminated, truncated, _ = step(policy.act(observation))
        total += float(reward)
        done = terminated or truncated
        steps += 1
    ended = time.perf_counter()
    env.close()
    return ended - began, time.perf_counter() - whole, total


def isolated(engine: LocalEngine, checkpoint: Checkpoint, case: Case) -> EpisodeResult:
    (outcome,) = engine.run([Episode(0, checkpoint, case)])
    assert isinstance(outcome, EpisodeResult), outcome
    return outcome


def compare(task: Task, folder: Path, stock: bool, lean: bool) -> Iterator[tuple[float, float, float, float, float]]:
    """Per case: ratio of the rollout, the same as it ships, ratio of the whole episode, bare and isolated microseconds
    per step."""
    with LocalEngine(task, 1, stock=stock) as engine, LocalEngine(task, 1) as shipped:
        checkpoint = engine.store.snapshot(folder)
        shipped.store.snapshot(folder)
        source = (folder / "policy.py").read_text()
        listed = cases(PaperSplits(), task.id, Split.TRAIN, list(range(200)))
        isolated(engine, checkpoint, listed[0])
        isolated(shipped, checkpoint, listed[0])
        bare(task, source, listed[0], stock, lean)
        deadline = time.perf_counter() + SECONDS_PER_TASK
        for number, case in enumerate(listed):
            loop_s, whole_s, total = bare(task, source, case, stock, lean)
            result = isolated(engine, checkpoint, case)
            ships = isolated(shipped, checkpoint, case)
            assert result.score == total, f"{task.id}: isolated {result.score}, bare {total}"
            assert ships.score == total, f"{task.id}: isolated {ships.score}, bare {total}"
            bare_us, isolated_us = (1e6 * seconds / result.length for seconds in (loop_s, result.rollout_s))
            yield loop_s / result.rollout_s, loop_s / ships.rollout_s, whole_s / result.wall_s, bare_us, isolated_us
            if time.perf_counter() > deadline and number >= 2:
                return


def overhead(slugs: list[str], folder: Path, stock: bool, lean: bool) -> None:
    rollouts = "rollout as it ships | rollout, same environment"
    print(f"| task | {rollouts} | whole episode | bare us per step | isolated us per step | cases |")
    print("|---|---|---|---|---|---|---|")
    for slug in slugs:
        rows = list(compare(core16()[f"core16/{slug}"], folder, stock, lean))
        rollout, ships, whole, step, jailed = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"| {slug} | {ships:.2f} | {rollout:.2f} | {whole:.2f} | {step:.1f} | {jailed:.1f} | {len(rows)} |",
            flush=True,
        )


def scaling(slugs: list[str], folder: Path) -> None:
    print("| task | two jobs / one job, throughput | episodes |")
    print("|---|---|---|")
    for slug in slugs:
        task = core16()[f"core16/{slug}"]
        listed = cases(PaperSplits(), task.id, Split.TRAIN, list(range(SCALING_EPISODES)))
        seconds = {jobs: statistics.median(_wall(task, folder, listed, jobs) for _ in range(2)) for jobs in (1, 2)}
        print(f"| {slug} | {seconds[1] / seconds[2]:.2f} | {len(listed)} |", flush=True)


def _wall(task: Task, folder: Path, listed: list[Case], jobs: int) -> float:
    with LocalEngine(task, jobs, stock=True) as engine:
        checkpoint = engine.store.snapshot(folder)
        engine.load(checkpoint)
        began = time.perf_counter()
        for _ in engine.run(Episode(i, checkpoint, case) for i, case in enumerate(listed)):
            pass
        return time.perf_counter() - began


def main() -> None:
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        linear = "--linear" in sys.argv
        (folder / "policy.py").write_text(LINEAR if linear else CONSTANT)
        if "--scaling" in sys.argv:
            scaling(chosen or ["ant", "half-cheetah", "door-key", "parking", "car-racing"], folder)
            return
        for level in (Level.A, Level.B):
            facts = measure_jail(level)
            print(f"level {level}: " + ", ".join(f"{name} {value:.3g}" for name, value in facts.items()))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the engine's single worker takes this core, too
        slugs = LINEAR_TASKS if linear else [task.partition("/")[2] for task in core16()]
        overhead(chosen or slugs, folder, "--fast" not in sys.argv, "--lean" in sys.argv)


if __name__ == "__main__":
    main()
