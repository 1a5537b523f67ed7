"""Fast versions of Gymnasium's MuJoCo environments."""

from __future__ import annotations

from typing import Any, Final

from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

from evopolicygym.fast.mujoco.ant import FastAnt
from evopolicygym.fast.mujoco.half_cheetah import FastHalfCheetah
from evopolicygym.fast.mujoco.pusher import FastPusher
from evopolicygym.fast.mujoco.reacher import FastReacher

FAST: Final[dict[type, type]] = {
    AntEnv: FastAnt,
    HalfCheetahEnv: FastHalfCheetah,
    PusherEnv: FastPusher,
    ReacherEnv: FastReacher,
}


def upgrade(env: Any) -> None:
    env.__class__ = FAST[type(env)]
