"""Ant-v5, fast: contact forces clipped once and health judged once, instead of twice each."""

from __future__ import annotations

from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from gymnasium.envs.mujoco.ant_v5 import AntEnv

from evopolicygym.fast.mujoco.simulation import Array, Simulation, length, squares

Stock: Any = AntEnv


class Ground(Simulation):
    """With a sheet for the clipped forces."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.torso, self.place = self.data.body(env._main_body).xpos[:2], self.positions[:2]
        self.raw_forces, self.force_range = self.data.cfrc_ext, env._contact_force_range
        self.forces: Array = np.empty_like(self.raw_forces)
        seen = self.positions[env.observation_structure["skipped_qpos"] :], self.velocities
        self.observed = (*seen, self.forces[1:].reshape(-1)) if env._include_cfrc_ext_in_observation else seen

    def observation(self) -> Array:
        """``AntEnv._get_obs``; afterwards ``forces`` is what ``AntEnv.contact_forces`` gives."""
        self.raw_forces.clip(*self.force_range, self.forces)
        return np.concatenate(self.observed)

    def finite(self) -> bool:
        """True only if every position and velocity is: a sum of squares is not finite when one of its terms is not."""
        return isfinite(self.positions.dot(self.positions)) and isfinite(self.velocities.dot(self.velocities))


class FastAnt(Stock):  # type: ignore[misc]
    """``AntEnv`` (ant_v5.py) with a leaner step."""

    @cached_property
    def _ground(self) -> Ground:
        return Ground(self)

    def step(self, action: Any) -> Any:
        """``AntEnv.step``."""
        ground = self._ground
        if not ground.takes(action):
            return super().step(action)
        x_before, y_before = ground.torso
        ground.advance(action)
        x_after, y_after = ground.torso
        velocity = (x_after - x_before) / ground.dt, (y_after - y_before) / ground.dt
        observation, healthy = ground.observation(), self._healthy(ground)
        reward, rewards = self._reward(ground, velocity[0], healthy, action)
        info = self._place(ground, velocity) | rewards
        if self.render_mode == "human":
            self.render()
        return observation, reward, (not healthy) and self._terminate_when_unhealthy, False, info

    def _healthy(self, ground: Ground) -> Any:
        """``AntEnv.is_healthy``, which is asked itself when squares overflow."""
        if not ground.finite():
            return self.is_healthy
        lowest, highest = self._healthy_z_range
        return lowest <= ground.positions[2] <= highest

    def _reward(self, ground: Ground, velocity: Any, healthy: Any, action: Any) -> tuple[Any, dict[str, Any]]:
        """``AntEnv._get_rew`` with its ``control_cost`` and ``contact_cost``."""
        forward, survive = velocity * self._forward_reward_weight, healthy * self._healthy_reward
        control = self._ctrl_cost_weight * squares(action)
        contact = self._contact_cost_weight * squares(ground.forces)
        return (forward + survive) - (control + contact), {
            "reward_forward": forward,
            "reward_ctrl": -control,
            "reward_contact": -contact,
            "reward_survive": survive,
        }

    def _place(self, ground: Ground, velocity: tuple[Any, Any]) -> dict[str, Any]:
        x, y = ground.place
        return {
            "x_position": x,
            "y_position": y,
            "distance_from_origin": np.float64(length(ground.place)),
            "x_velocity": velocity[0],
            "y_velocity": velocity[1],
        }
