"""HalfCheetah-v5, fast: the observation joined straight from MuJoCo's arrays, and the time step kept at hand."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from evopolicygym.fast.mujoco.simulation import Array, Simulation, squares

Stock: Any = HalfCheetahEnv


class Track(Simulation):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observed = self.positions[env.observation_structure["skipped_qpos"] :], self.velocities

    def observation(self) -> Array:
        """``HalfCheetahEnv._get_obs``."""
        return np.concatenate(self.observed)


class FastHalfCheetah(Stock):  # type: ignore[misc]
    """``HalfCheetahEnv`` (half_cheetah_v5.py) with a leaner step."""

    @cached_property
    def _track(self) -> Track:
        return Track(self)

    def step(self, action: Any) -> Any:
        """``HalfCheetahEnv.step`` with its ``_get_rew`` and ``control_cost``."""
        track = self._track
        if not track.takes(action):
            return super().step(action)
        before = track.positions[0]
        track.advance(action)
        after = track.positions[0]
        velocity = (after - before) / track.dt
        observation = track.observation()
        forward = self._forward_reward_weight * velocity
        cost = self._ctrl_cost_weight * squares(action)
        if self.render_mode == "human":
            self.render()
        info = {"x_position": after, "x_velocity": velocity, "reward_forward": forward, "reward_ctrl": -cost}
        return observation, forward - cost, False, False, info
