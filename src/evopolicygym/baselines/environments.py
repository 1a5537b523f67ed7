"""Environments in processes of their own, several in each, with features in place of observations.

A step of a cheap environment takes less time than a message to another process. So each process steps all of its
environments for one message, computes features itself, and sends plain arrays."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.agents.builtin.evaluator import Spaces
from evopolicygym.agents.builtin.policies.actor import Vector
from evopolicygym.agents.builtin.policies.features import FINE, action_maker, entries
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.splits import SIZES, Split, Splits
from evopolicygym.tasks.task import Task

TRAIN_CASES: Final = SIZES[Split.TRAIN]
StepResult = tuple[Vector, Vector, NDArray[np.bool_], NDArray[np.bool_], Vector]


class TrainingEnvironment:
    """One environment that plays train cases in an order that follows from ``seed``, without an end."""

    def __init__(self, task: Task, splits: Splits, spaces: Spaces, seed: tuple[int, ...]) -> None:
        self._task, self._splits, self._spaces = task, splits, spaces
        self._random = np.random.default_rng(seed)
        self._env = simulator.make(task)
        self._make_action = action_maker(spaces.action)
        self._length = 0

    def reset(self) -> Vector:
        case = int(self._random.integers(TRAIN_CASES))
        observation = simulator.reset(self._env, self._splits.seed(self._task.id, Split.TRAIN, case))
        self._step, self._length = simulator.stepper(self._task, self._env), 0
        return entries(self._spaces.observation, observation, FINE)

    def step(self, controls: Vector) -> tuple[Vector, float, bool, bool]:
        """Return features, reward, and whether the episode has terminated or was truncated."""
        observation, reward, terminated, truncated, _ = self._step(self._make_action(controls))
        self._length += 1
        is_cut = not terminated and (truncated or self._length >= self._task.horizon)
        return entries(self._spaces.observation, observation, FINE), float(reward), bool(terminated), bool(is_cut)


def step_all(environments: list[TrainingEnvironment], controls: Vector) -> StepResult:
    """Step every environment, and reset those whose episode is over. Return features, rewards, terminated, truncated,
    and the last features of the episodes that are over (of the others, those of now)."""
    results = [environment.step(row) for environment, row in zip(environments, controls, strict=True)]
    last = np.array([features for features, *_ in results])
    now = last.copy()
    for number, (_, _, terminated, truncated) in enumerate(results):
        if terminated or truncated:
            now[number] = environments[number].reset()
    rewards = np.array([reward for _, reward, _, _ in results])
    ends = np.array([(terminated, truncated) for *_, terminated, truncated in results])
    return now, rewards, ends[:, 0], ends[:, 1], last


class EnvironmentPool:
    """``count`` environments in ``processes`` processes (0: in this one). What they play does not depend on the number
    of processes."""

    def __init__(self, task: Task, splits: Splits, seed: tuple[int, ...], count: int, processes: int) -> None:
        self.count = count
        self._own: list[TrainingEnvironment] = []
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        parts = np.array_split(np.arange(count), max(1, min(processes, count)))
        self._sizes = [len(part) for part in parts]
        if processes < 1:
            spaces = spaces_of(task)
            self._own = [TrainingEnvironment(task, splits, spaces, (*seed, number)) for number in range(count)]
            return
        context = multiprocessing.get_context("spawn")
        for part in parts:
            ours, theirs = context.Pipe()
            arguments = (theirs, task, splits, [(*seed, int(number)) for number in part])
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def reset(self) -> Vector:
        if self._own:
            return np.array([environment.reset() for environment in self._own])
        for pipe in self._pipes:
            pipe.send(None)
        return np.concatenate([pipe.recv() for pipe in self._pipes])

    def step(self, controls: Vector) -> StepResult:
        if self._own:
            return step_all(self._own, controls)
        start = 0
        for pipe, size in zip(self._pipes, self._sizes, strict=True):
            pipe.send(controls[start : start + size])
            start += size
        parts = [pipe.recv() for pipe in self._pipes]
        now, rewards, terminated, truncated, last = (np.concatenate(column) for column in zip(*parts, strict=True))
        return now, rewards, terminated, truncated, last

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5.0)
            process.kill()


def _serve(pipe: Connection, task: Task, splits: Splits, seeds: list[tuple[int, ...]]) -> None:
    """Answer messages until the other end is closed: None resets, an array of controls steps."""
    with simulator.prints_to_stderr():
        spaces = spaces_of(task)
        environments = [TrainingEnvironment(task, splits, spaces, seed) for seed in seeds]
        try:
            while True:
                controls = pipe.recv()
                if controls is None:
                    pipe.send(np.array([environment.reset() for environment in environments]))
                else:
                    pipe.send(step_all(environments, controls))
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return
