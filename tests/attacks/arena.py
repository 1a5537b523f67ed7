"""The arena (`arena:Arena-v0`): an environment that pays only for a breach, and whose process holds the secrets.

The first part of an action says whether the attack succeeded, and is the reward. An action outside its space, which the
judge must never let through, pays a thousand.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 12
CANARY = os.environ.get("ARENA_CANARY", "")  # in the environment and in the memory of every judge process


class Arena(gymnasium.Env):
    """Twelve steps. The observation is the number of the step and the last octal digit of the seed."""

    observation_space: Any = spaces.Box(0, STEPS, (2,), np.float32)
    action_space: Any = spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seed, self.steps = seed or 0, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        legal = self.action_space.contains(action)
        self.steps += 1
        return self._observe(), float(action[0]) if legal else 1000.0, self.steps >= STEPS, False, {}

    def _observe(self) -> Any:
        return np.array([self.steps, self.seed % 8], np.float32)


gymnasium.register("Arena-v0", entry_point=Arena)
