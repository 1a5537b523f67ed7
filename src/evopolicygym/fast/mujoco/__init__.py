"""Fast versions of Gymnasium's MuJoCo environments."""

from __future__ import annotations

from typing import Any, Final

from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.mujoco_env import expand_model_path
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

from evopolicygym.fast.mujoco.ant import FastAnt
from evopolicygym.fast.mujoco.half_cheetah import FastHalfCheetah
from evopolicygym.fast.mujoco.pusher import FastPusher
from evopolicygym.fast.mujoco.reacher import FastReacher

# With the models that they were written for: another one, given as ``xml_file``, may have other joints and bodies.
FAST: Final[dict[type, tuple[type, str]]] = {
    AntEnv: (FastAnt, "ant.xml"),
    HalfCheetahEnv: (FastHalfCheetah, "half_cheetah.xml"),
    PusherEnv: (FastPusher, "pusher_v5.xml"),
    ReacherEnv: (FastReacher, "reacher.xml"),
}


def upgrade(env: Any) -> None:
    fast, model = FAST[type(env)]
    if env.fullpath == expand_model_path(model):
        env.__class__ = fast
