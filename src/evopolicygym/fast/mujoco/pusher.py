"""Pusher-v5, fast: wrist, puck and goal looked up once instead of seven times per step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv

from evopolicygym.fast.mujoco.simulation import Array, Simulation, length, squares

Stock: Any = PusherEnv


class Table(Simulation):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.wrist, self.puck, self.goal = (self.data.body(name).xpos for name in ("tips_arm", "object", "goal"))
        self.observed = self.positions[:7], self.velocities[:7], self.wrist, self.puck, self.goal

    def observation(self) -> Array:
        """``PusherEnv._get_obs``."""
        return np.concatenate(self.observed)


class FastPusher(Stock):  # type: ignore[misc]
    """``PusherEnv`` (pusher_v5.py) with a leaner step."""

    @cached_property
    def _table(self) -> Table:
        return Table(self)

    def step(self, action: Any) -> Any:
        """``PusherEnv.step`` with its ``_get_rew``."""
        table = self._table
        if not table.takes(action):
            return super().step(action)
        table.advance(action)
        observation, puck = table.observation(), table.puck
        reward_near = np.float64(-length(puck - table.wrist) * self._reward_near_weight)
        reward_dist = np.float64(-length(puck - table.goal) * self._reward_dist_weight)
        reward_ctrl = -squares(action) * self._reward_control_weight
        if self.render_mode == "human":
            self.render()
        info = {"reward_dist": reward_dist, "reward_ctrl": reward_ctrl, "reward_near": reward_near}
        return observation, reward_dist + reward_ctrl + reward_near, False, False, info
