"""Toy environments that a learner must solve (ids `learnable_toys:NAME-v0`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 10


class Tracking(gymnasium.Env):
    """Each step shows a target in three numbers, on a wide scale; the reward is less the farther the action is from a
    linear function of them."""

    observation_space: Any = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space: Any = spaces.Box(-2.0, 2.0, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.targets = self.np_random.uniform(-1.0, 1.0, (LENGTH + 1, 3))
        return self.observe(), {}

    def observe(self) -> Any:
        return self.targets[self.steps] * np.array([1.0, 30.0, 0.1])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.pay(action, self.targets[self.steps])
        self.steps += 1
        return self.observe(), reward, self.steps >= LENGTH, False, {}

    def pay(self, action: Any, target: Any) -> float:
        wanted = np.array([1.2 * target[0] - 0.4 * target[1], target[1] + 0.5 * target[2]])
        return 1.0 - float(np.abs(np.asarray(action) - wanted).mean())


class Sorting(Tracking):
    """The reward is one for the index of the largest of the three numbers."""

    action_space: Any = spaces.Discrete(3)

    def pay(self, action: Any, target: Any) -> float:
        return float(int(action) == int(np.argmax(target)))


for _environment in (Tracking, Sorting):
    gymnasium.register(f"{_environment.__name__}-v0", entry_point=_environment)
