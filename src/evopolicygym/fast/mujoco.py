"""Fast versions of Gymnasium's MuJoCo environments: Reacher-v5, Pusher-v5, HalfCheetah-v5 and Ant-v5.

A stock step looks up bodies by name and builds arrays several times over. Here each environment keeps views of the
arrays that MuJoCo writes into, and computes the same numbers from them, in the same order and precision.
"""

from __future__ import annotations

import math
from functools import cached_property
from math import isfinite
from typing import Any, Final

import mujoco
import numpy as np
from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv
from numpy.typing import NDArray

Array = NDArray[np.float64]
StockAnt: Any = AntEnv
StockHalfCheetah: Any = HalfCheetahEnv
StockPusher: Any = PusherEnv
StockReacher: Any = ReacherEnv


def upgrade(env: Any) -> None:
    """Make a stock environment fast, before its first reset."""
    env.__class__ = FAST[type(env)]


class MujocoState:
    """Views of an environment's MuJoCo model and state, taken once.

    MuJoCo writes into arrays that stay where they are, so subclasses keep views of what is observed and need not look
    it up again."""

    def __init__(self, env: Any) -> None:
        self.model, self.data = env.model, env.data
        self.controls, self.positions, self.velocities = env.data.ctrl, env.data.qpos, env.data.qvel
        self.frames, self.dt = env.frame_skip, env.dt
        self.shape: tuple[int, ...] | None = self.controls.shape  # of fast actions; None: stock steps only

    def accepts(self, action: Any) -> bool:
        """Return whether the action is a float32 array of the right shape, as the judge passes it.

        All other actions take the stock step, which sums squares in their own precision and reports wrong shapes."""
        return type(action) is np.ndarray and action.dtype.char == "f" and action.shape == self.shape

    def advance(self, action: Any) -> None:
        """Replace ``do_simulation`` and ``_step_mujoco_simulation`` (mujoco_env.py) by the same calls of MuJoCo."""
        self.controls[:] = action
        mujoco.mj_step(self.model, self.data, self.frames)
        mujoco.mj_rnePostConstraint(self.model, self.data)


def squares(numbers: Any) -> Any:
    """``np.sum(np.square(numbers))``, in their own precision: the reduction that ``np.sum`` calls in the end."""
    return np.add.reduce(np.square(numbers), None)


def length(vector: Array) -> float:
    """``np.linalg.norm(vector)``: the same dot product, and a root, which is exactly rounded everywhere."""
    return math.sqrt(vector.dot(vector))


class ReacherState(MujocoState):
    """State of Reacher, with a buffer that observations are written to and copied from."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.angles, self.goal, self.speeds = self.positions[:2], self.positions[2:], self.velocities[:2]
        self.fingertip, self.target = (self.data.body(name).xpos for name in ("fingertip", "target"))
        at = 4 + len(self.goal)
        buffer: Array = np.empty(at + 5)  # one number more than is observed: the distance is spatial
        self.cosines, self.sines = buffer[:2], buffer[2:4]
        self.goal_seen, self.speeds_seen = buffer[4:at], buffer[at:-3]
        self.offset, self.observed = buffer[-3:], buffer[:-1]
        if len(self.controls) != 2:  # the user's own model
            self.shape = None

    def observation(self) -> Array:
        """``ReacherEnv._get_obs``; afterwards ``offset`` is the vector from the target to the fingertip."""
        np.cos(self.angles, self.cosines)
        np.sin(self.angles, self.sines)
        self.goal_seen[:] = self.goal
        self.speeds_seen[:] = self.speeds
        np.subtract(self.fingertip, self.target, self.offset)
        return self.observed.copy()


class FastReacher(StockReacher):  # type: ignore[misc]
    """``ReacherEnv`` (reacher_v5.py) with a leaner step."""

    @cached_property
    def _state(self) -> ReacherState:
        return ReacherState(self)

    def step(self, action: Any) -> Any:
        """``ReacherEnv.step`` with its ``_get_rew``. Two squares are summed as numbers of the action's precision."""
        state = self._state
        if not state.accepts(action):
            return super().step(action)
        state.advance(action)
        observation = state.observation()
        first, second = action
        reward_dist = np.float64(-length(state.offset) * self._reward_dist_weight)
        reward_ctrl = -(first * first + second * second) * self._reward_control_weight
        if self.render_mode == "human":
            self.render()
        info = {"reward_dist": reward_dist, "reward_ctrl": reward_ctrl}
        return observation, reward_dist + reward_ctrl, False, False, info


class PusherState(MujocoState):
    """State of Pusher: wrist, puck and goal are looked up once instead of seven times per step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.wrist, self.puck, self.goal = (self.data.body(name).xpos for name in ("tips_arm", "object", "goal"))
        self.observed = self.positions[:7], self.velocities[:7], self.wrist, self.puck, self.goal

    def observation(self) -> Array:
        """``PusherEnv._get_obs``."""
        return np.concatenate(self.observed)


class FastPusher(StockPusher):  # type: ignore[misc]
    """``PusherEnv`` (pusher_v5.py) with a leaner step."""

    @cached_property
    def _state(self) -> PusherState:
        return PusherState(self)

    def step(self, action: Any) -> Any:
        """``PusherEnv.step`` with its ``_get_rew``."""
        state = self._state
        if not state.accepts(action):
            return super().step(action)
        state.advance(action)
        observation, puck = state.observation(), state.puck
        reward_near = np.float64(-length(puck - state.wrist) * self._reward_near_weight)
        reward_dist = np.float64(-length(puck - state.goal) * self._reward_dist_weight)
        reward_ctrl = -squares(action) * self._reward_control_weight
        if self.render_mode == "human":
            self.render()
        info = {"reward_dist": reward_dist, "reward_ctrl": reward_ctrl, "reward_near": reward_near}
        return observation, reward_dist + reward_ctrl + reward_near, False, False, info


class HalfCheetahState(MujocoState):
    """State of HalfCheetah: the observation is joined straight from MuJoCo's arrays."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observed = self.positions[env.observation_structure["skipped_qpos"] :], self.velocities

    def observation(self) -> Array:
        """``HalfCheetahEnv._get_obs``."""
        return np.concatenate(self.observed)


class FastHalfCheetah(StockHalfCheetah):  # type: ignore[misc]
    """``HalfCheetahEnv`` (half_cheetah_v5.py) with a leaner step."""

    @cached_property
    def _state(self) -> HalfCheetahState:
        return HalfCheetahState(self)

    def step(self, action: Any) -> Any:
        """``HalfCheetahEnv.step`` with its ``_get_rew`` and ``control_cost``."""
        state = self._state
        if not state.accepts(action):
            return super().step(action)
        before = state.positions[0]
        state.advance(action)
        after = state.positions[0]
        velocity = (after - before) / state.dt
        observation = state.observation()
        forward = self._forward_reward_weight * velocity
        cost = self._ctrl_cost_weight * squares(action)
        if self.render_mode == "human":
            self.render()
        info = {"x_position": after, "x_velocity": velocity, "reward_forward": forward, "reward_ctrl": -cost}
        return observation, forward - cost, False, False, info


class AntState(MujocoState):
    """State of Ant, with a buffer for contact forces: stock clips them twice per step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.torso, self.position = self.data.body(env._main_body).xpos[:2], self.positions[:2]
        self.raw_forces, self.force_range = self.data.cfrc_ext, env._contact_force_range
        self.forces: Array = np.empty_like(self.raw_forces)
        seen = self.positions[env.observation_structure["skipped_qpos"] :], self.velocities
        self.observed = (*seen, self.forces[1:].reshape(-1)) if env._include_cfrc_ext_in_observation else seen

    def observation(self) -> Array:
        """``AntEnv._get_obs``; afterwards ``forces`` is what ``AntEnv.contact_forces`` gives."""
        self.raw_forces.clip(*self.force_range, self.forces)
        return np.concatenate(self.observed)

    def finite(self) -> bool:
        """Return True only if every position and velocity is finite: otherwise a sum of squares is not."""
        return isfinite(self.positions.dot(self.positions)) and isfinite(self.velocities.dot(self.velocities))


class FastAnt(StockAnt):  # type: ignore[misc]
    """``AntEnv`` (ant_v5.py) with a leaner step."""

    @cached_property
    def _state(self) -> AntState:
        return AntState(self)

    def step(self, action: Any) -> Any:
        """``AntEnv.step``."""
        state = self._state
        if not state.accepts(action):
            return super().step(action)
        x_before, y_before = state.torso
        state.advance(action)
        x_after, y_after = state.torso
        velocity = (x_after - x_before) / state.dt, (y_after - y_before) / state.dt
        observation, healthy = state.observation(), self._healthy(state)
        reward, rewards = self._reward(state, velocity[0], healthy, action)
        info = self._position_info(state, velocity) | rewards
        if self.render_mode == "human":
            self.render()
        return observation, reward, (not healthy) and self._terminate_when_unhealthy, False, info

    def _healthy(self, state: AntState) -> Any:
        """``AntEnv.is_healthy``, which is called itself when squares overflow."""
        if not state.finite():
            return self.is_healthy
        lowest, highest = self._healthy_z_range
        return lowest <= state.positions[2] <= highest

    def _reward(self, state: AntState, velocity: Any, healthy: Any, action: Any) -> tuple[Any, dict[str, Any]]:
        """``AntEnv._get_rew`` with its ``control_cost`` and ``contact_cost``."""
        forward, survive = velocity * self._forward_reward_weight, healthy * self._healthy_reward
        control = self._ctrl_cost_weight * squares(action)
        contact = self._contact_cost_weight * squares(state.forces)
        return (forward + survive) - (control + contact), {
            "reward_forward": forward,
            "reward_ctrl": -control,
            "reward_contact": -contact,
            "reward_survive": survive,
        }

    def _position_info(self, state: AntState, velocity: tuple[Any, Any]) -> dict[str, Any]:
        x, y = state.position
        return {
            "x_position": x,
            "y_position": y,
            "distance_from_origin": np.float64(length(state.position)),
            "x_velocity": velocity[0],
            "y_velocity": velocity[1],
        }


FAST: Final[dict[type, type]] = {
    AntEnv: FastAnt,
    HalfCheetahEnv: FastHalfCheetah,
    PusherEnv: FastPusher,
    ReacherEnv: FastReacher,
}
