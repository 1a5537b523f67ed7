"""Reacher-v5, fast: fingertip and target looked up once instead of four times per step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

from evopolicygym.fast.mujoco.simulation import Array, Simulation, length

Stock: Any = ReacherEnv


class Arm(Simulation):
    """With a sheet to write the observation on; copies of it are handed out."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.angles, self.goal, self.speeds = self.positions[:2], self.positions[2:], self.velocities[:2]
        self.fingertip, self.target = (self.data.body(name).xpos for name in ("fingertip", "target"))
        at = 4 + len(self.goal)
        sheet: Array = np.empty(at + 5)  # one number more than is observed: the distance is spatial
        self.cosines, self.sines, self.goal_seen, self.speeds_seen = sheet[:2], sheet[2:4], sheet[4:at], sheet[at:-3]
        self.apart, self.observed = sheet[-3:], sheet[:-1]
        if len(self.controls) != 2:  # a model of the user's
            self.shape = None

    def observation(self) -> Array:
        """``ReacherEnv._get_obs``; afterwards ``apart`` is the way from the target to the fingertip."""
        np.cos(self.angles, self.cosines)
        np.sin(self.angles, self.sines)
        self.goal_seen[:] = self.goal
        self.speeds_seen[:] = self.speeds
        np.subtract(self.fingertip, self.target, self.apart)
        return self.observed.copy()


class FastReacher(Stock):  # type: ignore[misc]
    """``ReacherEnv`` (reacher_v5.py) with a leaner step."""

    @cached_property
    def _arm(self) -> Arm:
        return Arm(self)

    def step(self, action: Any) -> Any:
        """``ReacherEnv.step`` with its ``_get_rew``. Two squares are summed as numbers of the action's precision."""
        arm = self._arm
        if not arm.takes(action):
            return super().step(action)
        arm.advance(action)
        observation = arm.observation()
        first, second = action
        reward_dist = np.float64(-length(arm.apart) * self._reward_dist_weight)
        reward_ctrl = -(first * first + second * second) * self._reward_control_weight
        if self.render_mode == "human":
            self.render()
        info = {"reward_dist": reward_dist, "reward_ctrl": reward_ctrl}
        return observation, reward_dist + reward_ctrl, False, False, info
