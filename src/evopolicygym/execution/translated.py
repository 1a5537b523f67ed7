"""Playing through a translation: the policy and its recordings see the visible task, the simulator the real one.

The episode loop plays these in place of the policy and the recorder, so that a task that is shown as it is pays
nothing for them."""

from __future__ import annotations

from typing import Any

from evopolicygym.errors import Fault
from evopolicygym.execution.recording import Recorder
from evopolicygym.sandbox.policy.policy_process import PolicyProcess, RecordedActions, TimedPolicy
from evopolicygym.tasks.translation import Translation


class TranslatedPolicy:
    """A policy that plays the environment through a translation. It keeps what it saw and did last."""

    def __init__(self, policy: PolicyProcess | RecordedActions | TimedPolicy, translation: Translation) -> None:
        self._policy, self._translation = policy, translation
        self.seen: Any = None
        self.done: Any = None

    def reset(self, observation: Any) -> None:
        self.seen = self.see(observation)
        self._policy.reset(self.seen)

    def first_action(self) -> Any:
        self.done = self._policy.first_action()
        return self._translation.action(self.done)

    def act(self, observation: Any) -> Any:
        self.seen = self.see(observation)
        self.done = self._policy.act(self.seen)
        return self._translation.action(self.done)

    def see(self, observation: Any) -> Any:
        """Return what the policy sees of an observation; one that does not fit its space is the simulator's error."""
        try:
            return self._translation.observation(observation)
        except (ValueError, LookupError, TypeError) as error:
            raise Fault(f"the simulator gave an observation that does not fit its space: {error}") from error


class TranslatedRecorder:
    """Records what the policy saw and did, and rewards at the scale that its agent is told."""

    def __init__(self, recorder: Recorder, policy: TranslatedPolicy, scale: float) -> None:
        self._recorder, self._policy, self._scale = recorder, policy, scale

    @property
    def left_out(self) -> tuple[str, ...]:
        return self._recorder.left_out

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        policy = self._policy
        self._recorder.step(t, policy.seen, policy.done, reward * self._scale, terminated, truncated, info)

    def last(self, t: int, obs: Any) -> None:
        self._recorder.last(t, self._policy.see(obs))
