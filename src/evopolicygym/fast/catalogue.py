"""Which environments have a fast version, for which simulator versions, and how a stock environment becomes fast.

A fast version is the same task: same observations, rewards, endings and random state, bit for bit. An upgrade takes a
freshly made stock environment (before its first reset) and replaces slow methods, usually by giving it a subclass with
the same constructor. It never touches module globals, so that stock and fast can live side by side.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Final


@dataclass(frozen=True)
class FastVersion:
    """A module of this package with a function ``upgrade(env)``, written for exactly these versions."""

    module: str
    versions: Mapping[str, str]


GYMNASIUM: Final = {"gymnasium": "1.4.0", "numpy": "2.4.6"}
BOX2D: Final = GYMNASIUM | {"box2d": "2.3.10", "pygame-ce": "2.5.8"}
HIGHWAY: Final = FastVersion("highway", GYMNASIUM | {"highway-env": "1.12.1", "pandas": "3.1.1"})
MINIGRID: Final = FastVersion("minigrid", GYMNASIUM | {"minigrid": "3.2.0"})
FETCH: Final = FastVersion("fetch", GYMNASIUM | {"gymnasium-robotics": "1.4.2", "mujoco": "3.10.0"})
MUJOCO: Final = FastVersion("mujoco", GYMNASIUM | {"mujoco": "3.10.0"})

CATALOGUE: Final[Mapping[str, FastVersion]] = {
    "Acrobot-v1": FastVersion("acrobot", GYMNASIUM),
    "BipedalWalker-v3": FastVersion("bipedal_walker", BOX2D),
    "CarRacing-v3": FastVersion("car_racing", BOX2D),
    "MiniGrid-DoorKey-16x16-v0": MINIGRID,
    "MiniGrid-KeyCorridorS4R3-v0": MINIGRID,
    "MiniGrid-FourRooms-v0": MINIGRID,
    "MiniGrid-ObstructedMaze-1Q-v1": MINIGRID,
    "parking-v0": HIGHWAY,
    "roundabout-v0": HIGHWAY,
    "FetchPush-v4": FETCH,
    "FetchPickAndPlace-v4": FETCH,
    "Reacher-v5": MUJOCO,
    "Pusher-v5": MUJOCO,
    "HalfCheetah-v5": MUJOCO,
    "Ant-v5": MUJOCO,
}


def upgrade(env: Any) -> bool:
    """Make a new stock environment fast, in place. Returns False if there is no fast version for what is installed."""
    env_id = env.spec.id if env.spec else ""
    if env_id not in CATALOGUE or why_stock(env_id):
        return False
    importlib.import_module(f"evopolicygym.fast.{CATALOGUE[env_id].module}").upgrade(env.unwrapped)
    return True


def why_stock(env_id: str) -> str | None:
    """Return why an environment with a fast version runs as stock; None if it runs fast."""
    for name, version in CATALOGUE[env_id].versions.items():
        current = installed(name)
        if current is None:
            return f"{name} is not installed"
        if current != version:
            return f"the fast version is written for {name} {version}, but {current} is installed"
    return None


@cache
def installed(name: str) -> str | None:
    """Return the installed version. Cached: every episode makes an environment, and a lookup takes longer than a short
    episode gains."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
