"""The Fetch robot, with sites, joints and bodies looked up once instead of by name in every step.

The physics is MuJoCo's own, gets the same numbers, and takes about two thirds of a stock step. What is replaced is how
an action is written into the simulation and how the observation is read out of it. Wherever a sum or a product is
rounded, the operands and their order are those of the stock code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import mujoco
import numpy as np
from gymnasium_robotics.envs.fetch.fetch_env import MujocoFetchEnv
from gymnasium_robotics.envs.fetch.pick_and_place import MujocoFetchPickAndPlaceEnv
from gymnasium_robotics.envs.fetch.push import MujocoFetchPushEnv
from numpy.typing import NDArray

Array = NDArray[np.float64]
FINGERS: Final = ("robot0:r_gripper_finger_joint", "robot0:l_gripper_finger_joint")  # the last joints of the robot
GIMBAL_LOCK: Final = float(np.finfo(np.float64).eps) * 4.0
DOWNWARDS: Final = np.array([1.0, 0.0, 1.0, 0.0])  # added to the hand's rotation, a quaternion


@dataclass(frozen=True)
class FetchIndices:
    """Indices into MuJoCo's arrays. They are fixed by the model, which does not change after it has been loaded."""

    grip: int  # sites
    cube: int
    hand: int  # the body that the mocap body pulls along
    mocap: int
    fingers_qpos: list[int]
    fingers_qvel: list[int]
    servos: list[int]  # for each actuator, the index in qpos that it drives

    @staticmethod
    def of(model: Any) -> FetchIndices:
        assert list(model.eq_type) == [mujoco.mjtEq.mjEQ_WELD] and (model.actuator_biastype != 0).all()
        fingers = [model.joint(name) for name in FINGERS]
        return FetchIndices(
            grip=int(model.site("robot0:grip").id),
            cube=int(model.site("object0").id),
            hand=int(model.eq_obj2id[0]),
            mocap=int(model.body_mocapid[model.eq_obj1id[0]]),
            fingers_qpos=[int(finger.qposadr[0]) for finger in fingers],
            fingers_qvel=[int(finger.dofadr[0]) for finger in fingers],
            servos=[int(model.jnt_qposadr[joint]) for joint in model.actuator_trnid[:, 0]],
        )


class DirectFetch(MujocoFetchEnv):  # type: ignore[misc]
    """Mixin that goes before a stock environment class with a cube."""

    @cached_property
    def _indices(self) -> FetchIndices:
        return FetchIndices.of(self.model)

    def _set_action(self, action: Any) -> None:
        """Replaces ``_set_action`` of both classes in envs/fetch/fetch_env.py, and for ``ctrl_set_action``,
        ``mocap_set_action`` and ``reset_mocap2body_xpos`` (utils/mujoco_utils.py).

        The target of each finger is where it is plus the action; the mocap body goes to where the hand is plus the
        action. Stock copies the hand's pose into the mocap body first and adds to it there: the same sums. The product
        with 0.05 is rounded in the action's own precision and then widened, as by stock's concatenation.
        """
        data, indices = self.data, self._indices
        grip = 0.0 if self.block_gripper else float(action[3])
        for actuator, index in enumerate(indices.servos):
            data.ctrl[actuator] = data.qpos[index] + grip
        data.mocap_pos[indices.mocap] = data.xpos[indices.hand] + action[:3] * 0.05
        data.mocap_quat[indices.mocap] = data.xquat[indices.hand] + DOWNWARDS

    def _step_callback(self) -> None:
        """Replaces ``MujocoFetchEnv._step_callback`` (envs/fetch/fetch_env.py): shut fingers stay shut."""
        if self.block_gripper:
            for index in self._indices.fingers_qpos:
                self.data.qpos[index] = 0.0
            mujoco.mj_forward(self.model, self.data)

    def generate_mujoco_observations(self) -> tuple[Array, ...]:
        """Replaces ``MujocoFetchEnv.generate_mujoco_observations`` (envs/fetch/fetch_env.py).

        Stock reads all fifteen joints of the robot by name and uses the last two. A site's velocity is the product of
        its Jacobian with the velocities of the joints: the same products of arrays of the same shape and layout.
        ``mj_jacSite`` fills the two Jacobians of a site independently, so one call does for both.
        """
        model, data, indices = self.model, self.data, self._indices
        grip_jacobian, cube_jacobian, cube_turning = (np.zeros((3, model.nv)) for _ in range(3))
        mujoco.mj_jacSite(model, data, grip_jacobian, None, indices.grip)
        mujoco.mj_jacSite(model, data, cube_jacobian, cube_turning, indices.cube)
        qvel, dt = data.qvel, self.n_substeps * model.opt.timestep
        grip_velocity = (grip_jacobian @ qvel) * dt
        grip, cube = data.site_xpos[indices.grip], data.site_xpos[indices.cube]
        return (
            grip,
            cube,
            cube - grip,
            data.qpos[indices.fingers_qpos],
            _euler(data.site_xmat[indices.cube]),
            (cube_jacobian @ qvel) * dt - grip_velocity,
            (cube_turning @ qvel) * dt,
            grip_velocity,
            qvel[indices.fingers_qvel] * dt,
        )


def _euler(matrix: Any) -> Array:
    """``mat2euler`` (utils/rotations.py) of one matrix: only the branch that is used, and numbers instead of arrays.

    Products, sums and square roots are exactly rounded in both; the arc tangent is not, so it stays numpy's.
    """
    (xx, xy, xz), (yx, yy, yz), (_, _, zz) = matrix.reshape(3, 3).tolist()
    cosine = math.sqrt(zz * zz + yz * yz)
    pitch = -np.arctan2(-xz, cosine)
    if cosine > GIMBAL_LOCK:
        return np.array([-np.arctan2(yz, zz), pitch, -np.arctan2(xy, xx)])
    return np.array([0.0, pitch, -np.arctan2(-yx, yy)])


class FastFetchPush(DirectFetch, MujocoFetchPushEnv):  # type: ignore[misc]
    pass


class FastFetchPickAndPlace(DirectFetch, MujocoFetchPickAndPlaceEnv):  # type: ignore[misc]
    pass


FAST: Final[dict[type, type]] = {
    MujocoFetchPushEnv: FastFetchPush,
    MujocoFetchPickAndPlaceEnv: FastFetchPickAndPlace,
}


def upgrade(env: Any) -> None:
    """Make a stock environment fast, before its first reset."""
    env.__class__ = FAST[type(env)]
