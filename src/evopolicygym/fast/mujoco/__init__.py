"""Fast versions of Gymnasium's MuJoCo environments."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

from evopolicygym.fast.mujoco.reacher import FastReacher


def upgrade(env: Any) -> None:
    fast: dict[type, type] = {ReacherEnv: FastReacher}
    env.__class__ = fast[type(env)]
