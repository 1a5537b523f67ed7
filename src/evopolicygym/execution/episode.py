"""The episode loop: one policy process plays one environment until either ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.recording import Recorder
from evopolicygym.execution.translated import TranslatedPolicy
from evopolicygym.sandbox.policy.policy_process import PolicyProcess, RecordedActions, TimedPolicy
from evopolicygym.sandbox.policy.protocol import PolicyFailure
from evopolicygym.tasks import simulator
from evopolicygym.tasks.task import Task

Player = PolicyProcess | RecordedActions | TranslatedPolicy | TimedPolicy


class SimulatorError(Exception):
    """The environment raised, or returned an invalid observation or reward."""

    progress: EpisodeProgress | None = None


@dataclass
class EpisodeProgress:
    """The state that an episode has reached; complete when it has ended in any way."""

    total: float = 0.0
    length: int = 0
    terminated: bool = False
    truncated: bool = False
    seconds: float = 0.0
    failure: PolicyFailure | None = None
    left_out: tuple[str, ...] = ()
    longest_act_cpu_s: float = 0.0


def play(task: Task, env: Any, seed: int, policy: Player, recorder: Recorder | None = None) -> EpisodeProgress:
    """Play from the first reset to the last step. A failing policy is a result; a failing simulator raises."""
    progress = EpisodeProgress()
    began = time.perf_counter()
    observation = simulator.reset(env, seed)
    try:
        _steps(task.horizon, simulator.stepper(task, env), observation, policy, recorder, progress)
    except PolicyFailure as failure:
        progress.failure = failure
    except SimulatorError as error:
        error.progress = progress
        raise
    finally:
        progress.seconds = time.perf_counter() - began
    return progress


def _steps(
    horizon: int,
    step: Callable[[Any], Any],
    observation: Any,
    policy: Player,
    recorder: Recorder | None,
    progress: EpisodeProgress,
) -> None:
    """Step until either side ends the episode. Only local names in the loop: each lookup meets cold caches."""
    act, isfinite, total, length, done = policy.act, math.isfinite, 0.0, 0, False
    try:
        policy.reset(observation)
        action = policy.first_action()
        while not done:
            before = observation
            observation, reward, terminated, truncated, info = step(action)
            reward = float(reward)
            total += reward
            if not isfinite(total):
                raise ArithmeticError(f"the reward of step {length} is {reward}, the return {total}")
            length += 1
            if terminated or truncated or length >= horizon:
                done, progress.terminated, progress.truncated = True, bool(terminated), not terminated
            if recorder:
                recorder.step(length - 1, before, action, reward, progress.terminated, progress.truncated, info)
            if not done:
                action = act(observation)
    except (PolicyFailure, Fault):
        raise
    except Exception as error:
        text = f"the simulator raised {type(error).__name__}: {error}"
        if isinstance(error, ImportError):  # a module that is not installed is not the policy's fault
            raise Fault(text, is_permanent(error)) from error
        raise SimulatorError(text) from error
    finally:
        progress.total, progress.length = total if math.isfinite(total) else 0.0, length
        if recorder:
            recorder.last(length, observation)
