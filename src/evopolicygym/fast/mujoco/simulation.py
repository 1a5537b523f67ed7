"""What all of them share: which actions are fast, how one goes into MuJoCo, sums and lengths as stock rounds them."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Simulation:
    """Model, state and time step of an environment, all fixed when it is made. MuJoCo writes into arrays that stay
    where they are, so subclasses keep views of what is observed and need not look it up again."""

    def __init__(self, env: Any) -> None:
        self.model, self.data = env.model, env.data
        self.controls, self.positions, self.velocities = env.data.ctrl, env.data.qpos, env.data.qvel
        self.frames, self.dt = env.frame_skip, env.dt
        self.shape: tuple[int, ...] | None = self.controls.shape  # of actions; None: stock takes all

    def takes(self, action: Any) -> bool:
        """Whether the action is what the action space says, as the judge hands it over. Stock takes all others: it
        sums squares in their own precision and reports wrong shapes."""
        return type(action) is np.ndarray and action.dtype.char == "f" and action.shape == self.shape

    def advance(self, action: Any) -> None:
        """Stands for ``do_simulation`` and ``_step_mujoco_simulation`` (mujoco_env.py): the same calls of MuJoCo."""
        self.controls[:] = action
        mujoco.mj_step(self.model, self.data, self.frames)
        mujoco.mj_rnePostConstraint(self.model, self.data)


def squares(numbers: Any) -> Any:
    """``np.sum(np.square(numbers))``, in their own precision: the reduction that ``np.sum`` calls in the end."""
    return np.add.reduce(np.square(numbers), None)


def length(vector: Array) -> float:
    """``np.linalg.norm(vector)``: the same dot product, and a root, which is exactly rounded everywhere."""
    return math.sqrt(vector.dot(vector))
