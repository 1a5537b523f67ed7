"""Fast versions of highway-env's parking-v0 and roundabout-v0."""

from __future__ import annotations

from typing import Any

from highway_env.envs.parking_env import ParkingEnv
from highway_env.envs.roundabout_env import RoundaboutEnv

from evopolicygym.fast.highway.environments import FastParking, FastRoundabout


def upgrade(env: Any) -> None:
    fast = {ParkingEnv: FastParking, RoundaboutEnv: FastRoundabout}
    if type(env) in fast:
        env.__class__ = fast[type(env)]
