"""Plays the actors of our own learners on train cases without a jail, in several processes.

Only networks that this package trained itself are played here. Their checkpoints are measured like any policy, in the
jail (baselines/curve.py)."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

import numpy as np

from evopolicygym.agents.builtin.evaluator import Spaces
from evopolicygym.agents.builtin.learners.search import Rollouts
from evopolicygym.agents.builtin.policies.actor import Actor, Vector
from evopolicygym.agents.builtin.policies.features import action_maker
from evopolicygym.baselines.encoding import feature_count, feature_writer
from evopolicygym.tasks import simulator
from evopolicygym.tasks.spaces import json_safe
from evopolicygym.tasks.splits import Split, Splits
from evopolicygym.tasks.task import Task

EVERY: Final = 8  # steps, of which one counts for the statistics of observations
NEVER: Final = float("inf")


@dataclass(frozen=True)
class PlayedEpisode:
    total: float
    steps: int
    observations: Vector


def spaces_of(task: Task) -> Spaces:
    """Return the spaces of a task as an agent reads them from the API."""
    env = simulator.make(task)
    try:
        observation, action_space = simulator.schemas(task, env)
    finally:
        env.close()
    return Spaces(json_safe(observation), json_safe(action_space))


def play_episode(task: Task, spaces: Spaces, actor: Actor, seed: int) -> PlayedEpisode:
    """Play one episode to its end, in an environment of its own: not every environment forgets everything on reset."""
    env = simulator.make(task)
    try:
        observation = simulator.reset(env, seed)
        step = simulator.stepper(task, env)
        actor.reset()
        make_action, write_features = action_maker(spaces.action), feature_writer(spaces.observation)
        size = feature_count(spaces.observation)
        total, length, rows, done = 0.0, 0, [], False
        while not done:
            features = np.empty(size)
            write_features(observation, features)
            if length % EVERY == 0:
                rows.append(features)
            observation, reward, terminated, truncated, _ = step(make_action(actor.controls(features)))
            total += float(reward)
            length += 1
            done = terminated or truncated or length >= task.horizon
    finally:
        env.close()
    return PlayedEpisode(total, length, np.array(rows))


class SimulatorPlayer:
    """Plays actors in ``jobs`` processes. The result does not depend on their number."""

    remaining = NEVER

    def __init__(self, task: Task, splits: Splits, jobs: int) -> None:
        self._task, self._splits = task, splits
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, context, _start_process, (task,)) if jobs > 1 else None
        if self._pool is None:
            _start_process(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def play(self, actors: Sequence[Actor], cases: list[int]) -> list[Rollouts]:
        seeds = [self._splits.seed(self._task.id, Split.TRAIN, case) for case in cases]
        jobs = [(actor.weights, seed) for actor in actors for seed in seeds]
        episodes = list(self._pool.map(_play, jobs) if self._pool else map(_play, jobs))
        each = len(seeds)
        return [_rollouts(episodes[start : start + each]) for start in range(0, len(episodes), each)]


def _rollouts(episodes: list[PlayedEpisode]) -> Rollouts:
    return Rollouts(
        returns=np.array([episode.total for episode in episodes]),
        observations=np.concatenate([episode.observations for episode in episodes]),
        steps=sum(episode.steps for episode in episodes),
    )


_TASKS: list[Task] = []  # of this process: sent once, not with every episode


def _start_process(task: Task) -> None:
    _TASKS[:] = [task]
    _spaces.cache_clear()


@cache
def _spaces() -> Spaces:
    return spaces_of(_TASKS[0])


def _play(job: tuple[dict[str, Any], int]) -> PlayedEpisode:
    weights, seed = job
    with simulator.prints_to_stderr():
        return play_episode(_TASKS[0], _spaces(), Actor(weights), seed)
