"""The episode loop: one policy process plays one environment until either ends it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from evopolicygym.rollout.recorder import Recorder
from evopolicygym.sandbox.channel import PolicyProcess
from evopolicygym.sandbox.failures import PolicyFailure
from evopolicygym.tasks.task import Task


class SimulatorError(Exception):
    """The environment raised, or gave a reward that is not a number."""

    progress: Progress | None = None


@dataclass
class Progress:
    """How far an episode has come; complete when it ends, whichever way."""

    total: float = 0.0
    length: int = 0
    terminated: bool = False
    truncated: bool = False
    seconds: float = 0.0
    failure: PolicyFailure | None = None


def play(task: Task, env: Any, observation: Any, policy: PolicyProcess, recorder: Recorder) -> Progress:
    """From the first reset to the last step. A failing policy is a result; a failing simulator raises."""
    progress = Progress()
    began = time.perf_counter()
    try:
        policy.reset()
        while not (progress.terminated or progress.truncated):
            action = policy.act(observation)
            observation = _step(task, env, observation, action, progress, recorder)
    except PolicyFailure as failure:
        progress.failure = failure
    except SimulatorError as error:
        error.progress = progress
        raise
    progress.seconds = time.perf_counter() - began
    recorder.last(progress.length, observation)
    return progress


def _step(task: Task, env: Any, before: Any, action: Any, progress: Progress, recorder: Recorder) -> Any:
    try:
        observation, reward, terminated, truncated, _ = env.step(action)
        reward = float(reward)
    except Exception as error:
        raise SimulatorError(f"the simulator raised {type(error).__name__}: {error}") from error
    if not math.isfinite(reward):
        raise SimulatorError(f"the simulator gave a reward of {reward}")
    progress.total += reward
    progress.terminated = bool(terminated)
    progress.truncated = not terminated and (bool(truncated) or progress.length + 1 >= task.horizon)
    recorder.step(progress.length, before, action, reward, progress.terminated, progress.truncated)
    progress.length += 1
    return observation
