"""The episode loop: one policy process plays one environment until either ends it.

A policy that sees its task through a translation plays as a TranslatedPolicy; other policies pay nothing for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.recording import Recorder
from evopolicygym.sandbox.policy.policy_process import PolicyProcess, RecordedActions, TimedPolicy
from evopolicygym.sandbox.policy.protocol import PolicyFailure
from evopolicygym.tasks import simulator
from evopolicygym.tasks.task import Task
from evopolicygym.tasks.translation import Translation


class TranslatedPolicy:
    """A policy that plays the environment through a translation. ``observation`` and ``action`` are its last
    ones, as the policy has them."""

    def __init__(self, policy: PolicyProcess | RecordedActions | TimedPolicy, translation: Translation) -> None:
        self._policy, self._translation = policy, translation
        self.observation: Any = None
        self.action: Any = None

    def reset(self, observation: Any) -> None:
        self.observation = self.translate(observation)
        self._policy.reset(self.observation)

    def first_action(self) -> Any:
        self.action = self._policy.first_action()
        return self._translation.action(self.action)

    def act(self, observation: Any) -> Any:
        self.observation = self.translate(observation)
        self.action = self._policy.act(self.observation)
        return self._translation.action(self.action)

    def translate(self, observation: Any) -> Any:
        """Return what the policy sees of an observation; one that does not fit its space is the simulator's error."""
        try:
            return self._translation.observation(observation)
        except (ValueError, LookupError, TypeError) as error:
            raise Fault(f"the simulator gave an observation that does not fit its space: {error}") from error


class TranslatedRecorder:
    """Records what the policy saw and did, and rewards at the scale that its agent sees."""

    def __init__(self, recorder: Recorder, policy: TranslatedPolicy, scale: float) -> None:
        self._recorder, self._policy, self._scale = recorder, policy, scale

    @property
    def left_out(self) -> tuple[str, ...]:
        return self._recorder.left_out

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        policy = self._policy
        self._recorder.step(t, policy.observation, policy.action, reward * self._scale, terminated, truncated, info)

    def last(self, t: int, obs: Any) -> None:
        self._recorder.last(t, self._policy.translate(obs))


Player = PolicyProcess | RecordedActions | TranslatedPolicy | TimedPolicy


class SimulatorError(Exception):
    """The environment raised, or returned an invalid observation or reward."""

    progress: EpisodeProgress | None = None


@dataclass
class EpisodeProgress:
    """The state of an episode so far; final once the episode has ended."""

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
