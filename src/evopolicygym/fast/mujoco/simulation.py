"""What all of them share: which actions are fast, how one goes into MuJoCo, and lengths as stock rounds them."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Direct(MujocoEnv):  # type: ignore[misc]
    """Goes before a stock environment class. Replaced is ``step`` alone; resets are stock's."""

    def _plain(self, action: Any) -> bool:
        """Whether the action is what the action space says, as the judge hands it over. Stock takes all others: it
        sums squares in their own precision and reports wrong shapes."""
        return type(action) is np.ndarray and action.dtype.char == "f" and action.shape == self.data.ctrl.shape

    def _advance(self, action: Any) -> None:
        """Stands for ``do_simulation`` and ``_step_mujoco_simulation`` (mujoco_env.py): the same calls of MuJoCo."""
        model, data = self.model, self.data
        data.ctrl[:] = action
        mujoco.mj_step(model, data, self.frame_skip)
        mujoco.mj_rnePostConstraint(model, data)


def length(vector: Array) -> float:
    """``np.linalg.norm(vector)``: the same dot product, and a root, which is exactly rounded everywhere."""
    return math.sqrt(vector.dot(vector))
