"""Environments in this process and in others, several in each, with features in place of observations.

A step of a cheap environment takes less time than a message to another process. So each process steps all of its
environments for one message, and messages are single bytes: numbers are in memory that all processes share. This
process steps its own environments meanwhile, and where that is faster it steps all of them."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.agents.builtin.evaluator import Spaces
from evopolicygym.agents.builtin.policies.actor import Vector
from evopolicygym.agents.builtin.policies.features import action_maker
from evopolicygym.baselines.encoding import actions_maker, feature_count, feature_writer
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.splits import SIZES, Split, Splits
from evopolicygym.tasks.task import Task

TRAIN_CASES: Final = SIZES[Split.TRAIN]
LEAST_WORK_S: Final = 1.5e-4  # of a process for one message, which took 1.3e-4 s with its answer on two busy cores
TIMED_STEPS: Final = 100
RESET: Final = b"r"
STEP: Final = b"s"
StepResult = tuple[Vector, Vector, NDArray[np.bool_], NDArray[np.bool_], Vector]


class TrainingEnvironment:
    """One environment that plays train cases in an order that follows from ``seed``, without an end."""

    def __init__(self, task: Task, splits: Splits, spaces: Spaces, seed: tuple[int, ...]) -> None:
        self._task, self._splits = task, splits
        self._random = np.random.default_rng(seed)
        self._env = simulator.make(task)
        self._write_features = feature_writer(spaces.observation)
        self._length, self._horizon = 0, task.horizon

    def reset(self, features: Vector) -> None:
        """Begin an episode, and write its first features."""
        case = int(self._random.integers(TRAIN_CASES))
        observation = simulator.reset(self._env, self._splits.seed(self._task.id, Split.TRAIN, case))
        self._step, self._length = simulator.stepper(self._task, self._env), 0
        self._write_features(observation, features)

    def step(self, action: Any, features: Vector) -> tuple[float, bool, bool]:
        """Write the next features. Return the reward, and whether the episode has terminated or was truncated."""
        observation, reward, terminated, truncated, _ = self._step(action)
        self._write_features(observation, features)
        self._length = length = self._length + 1
        if terminated:
            return reward, True, False
        return reward, False, bool(truncated) or length >= self._horizon

    def close(self) -> None:
        self._env.close()


class Table:
    """A row for each environment: controls, features, the last features of an episode, reward, terminated, truncated.
    Rows of the same memory can be tables of other processes. ``results`` are the last three columns."""

    def __init__(self, memory: Any, spaces: Spaces, rows: slice = slice(None)) -> None:
        controls, features = spaces.controls, feature_count(spaces.observation)
        table = np.frombuffer(memory).reshape(-1, self.width(spaces))[rows]
        parts = np.split(table, np.cumsum([controls, features, features]), axis=1)
        self.controls, self.now, self.last, self.results = parts

    @staticmethod
    def width(spaces: Spaces) -> int:
        return spaces.controls + 2 * feature_count(spaces.observation) + 3


class EnvironmentGroup:
    """The environments of one process, stepped on their rows of the table."""

    def __init__(
        self, task: Task, splits: Splits, spaces: Spaces, seeds: Sequence[tuple[int, ...]], table: Table
    ) -> None:
        environments = [TrainingEnvironment(task, splits, spaces, seed) for seed in seeds]
        self._environments = list(zip(environments, table.now, table.last, strict=True))
        self._make_actions, self._table = actions_maker(spaces.action), table

    def reset(self) -> None:
        for environment, now, _ in self._environments:
            environment.reset(now)

    def step(self) -> None:
        """Step every environment, and reset those whose episode is over."""
        table = self._table
        actions = self._make_actions(table.controls)
        results = [
            environment.step(action, last)
            for (environment, _, last), action in zip(self._environments, actions, strict=True)
        ]
        table.now[:] = table.last
        table.results[:] = results
        for number, (_, terminated, truncated) in enumerate(results):
            if terminated or truncated:
                environment, now, _ = self._environments[number]
                environment.reset(now)

    def close(self) -> None:
        for environment, _, _ in self._environments:
            environment.close()


def fastest_processes(task: Task, splits: Splits, count: int, most: int) -> int:
    """Return in how many processes ``count`` environments are stepped fastest, this one included: at most ``most``."""
    if most <= 1 or count <= 1:
        return 1
    return max(1, min(most, count, int(count * measure_step(task, splits) / LEAST_WORK_S)))


def measure_step(task: Task, splits: Splits) -> float:
    """Return the seconds that a step takes here: the median of some, which a few slow ones do not change."""
    spaces = spaces_of(task)
    environment = TrainingEnvironment(task, splits, spaces, (0,))
    features, action = (
        np.zeros(feature_count(spaces.observation)),
        action_maker(spaces.action)(np.zeros(spaces.controls)),
    )
    environment.reset(features)
    times = []
    for _ in range(TIMED_STEPS):
        began = time.perf_counter()
        _, terminated, truncated = environment.step(action, features)
        times.append(time.perf_counter() - began)
        if terminated or truncated:
            environment.reset(features)
    environment.close()
    return float(np.median(times))


class EnvironmentPool:
    """``count`` environments in ``processes`` processes, this one included. What they play does not depend on the
    number of processes."""

    def __init__(self, task: Task, splits: Splits, seed: tuple[int, ...], count: int, processes: int) -> None:
        self.count = count
        self._pipes: list[Connection] = []
        self.processes: list[Any] = []
        spaces = spaces_of(task)
        context = multiprocessing.get_context("spawn")
        memory = context.RawArray(ctypes.c_double, count * Table.width(spaces))
        self._table = Table(memory, spaces)
        own, *others = np.array_split(np.arange(count), max(1, min(processes, count)))
        for part in others:
            ours, theirs = context.Pipe()
            seeds = [(*seed, int(number)) for number in part]
            arguments = (theirs, task, splits, seeds, memory, slice(int(part[0]), int(part[-1]) + 1))
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        seeds, rows = [(*seed, int(number)) for number in own], slice(0, len(own))
        self._own = EnvironmentGroup(task, splits, spaces, seeds, Table(memory, spaces, rows))

    def reset(self) -> Vector:
        """Begin an episode in each environment; return their first features."""
        self._send(RESET)
        self._own.reset()
        self._wait()
        return self._table.now.copy()

    def step(self, controls: Vector) -> StepResult:
        """Step every environment. Return features, rewards, terminated, truncated, and the last features of the
        episodes that are over (of the others, those of now)."""
        table = self._table
        table.controls[:] = controls
        self._send(STEP)
        self._own.step()
        self._wait()
        rewards, terminated, truncated = table.results.T.copy()
        return table.now.copy(), rewards, terminated > 0.0, truncated > 0.0, table.last.copy()

    def close(self) -> None:
        self._own.close()
        for pipe in self._pipes:
            pipe.close()
        for process in self.processes:
            process.join(5.0)
            process.kill()

    def _send(self, message: bytes) -> None:
        for pipe in self._pipes:
            pipe.send_bytes(message)

    def _wait(self) -> None:
        for pipe in self._pipes:
            pipe.recv_bytes()


def _serve(
    pipe: Connection, task: Task, splits: Splits, seeds: list[tuple[int, ...]], memory: Any, rows: slice
) -> None:
    """Answer messages until the other end is closed."""
    with simulator.prints_to_stderr():
        spaces = spaces_of(task)
        group = EnvironmentGroup(task, splits, spaces, seeds, Table(memory, spaces, rows))
        try:
            while True:
                message = pipe.recv_bytes()
                if message == RESET:
                    group.reset()
                else:
                    group.step()
                pipe.send_bytes(message)
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return
