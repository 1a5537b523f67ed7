"""Reacher-v5, fast: fingertip and target looked up once instead of four times per step.

Three quarters of what is left is MuJoCo. It writes into arrays that stay where they are, so a view of a body's position
never has to be looked up again.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

from evopolicygym.fast.mujoco.simulation import Array, Direct, length


class Scene:
    """Where MuJoCo keeps what is observed, and a sheet to write the observation on; copies of it are handed out."""

    def __init__(self, data: Any) -> None:
        self.angles, self.goal, self.speeds = data.qpos[:2], data.qpos[2:], data.qvel[:2]
        self.fingertip, self.target = data.body("fingertip").xpos, data.body("target").xpos
        sheet: Array = np.empty(11)  # one number more than is observed: the distance is spatial
        self.cosines, self.sines, self.goal_seen, self.speeds_seen = sheet[:2], sheet[2:4], sheet[4:6], sheet[6:8]
        self.apart, self.observed = sheet[8:], sheet[:10]

    def observation(self) -> Array:
        """``ReacherEnv._get_obs``; afterwards ``apart`` is the way from the target to the fingertip."""
        np.cos(self.angles, self.cosines)
        np.sin(self.angles, self.sines)
        self.goal_seen[:] = self.goal
        self.speeds_seen[:] = self.speeds
        np.subtract(self.fingertip, self.target, self.apart)
        return self.observed.copy()


class FastReacher(Direct, ReacherEnv):  # type: ignore[misc]
    """``ReacherEnv`` (reacher_v5.py) with a leaner step."""

    @cached_property
    def _scene(self) -> Scene:
        return Scene(self.data)

    def step(self, action: Any) -> Any:
        """``ReacherEnv.step`` with its ``_get_rew``. Two squares are summed as numbers of the action's precision."""
        if not self._plain(action):
            return super().step(action)
        self._advance(action)
        scene = self._scene
        observation = scene.observation()
        first, second = action
        reward_dist = np.float64(-length(scene.apart) * self._reward_dist_weight)
        reward_ctrl = -(first * first + second * second) * self._reward_control_weight
        if self.render_mode == "human":
            self.render()
        info = {"reward_dist": reward_dist, "reward_ctrl": reward_ctrl}
        return observation, reward_dist + reward_ctrl, False, False, info
