"""Ant by a tuned trotting gait.

Every joint follows a sine wave of one common frequency with its own size, phase and offset,
through a spring and damper on the measured joint angle; a correction proportional to the heading
keeps the ant going straight along x, and the waves grow from nothing at the start. The numbers
of the gait were found by an evolution search on the simulator (seeds outside the train cases).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

STEP = 0.05
"""Seconds between two actions."""
RAMP = 1.0
"""Seconds over which the gait grows to full strength."""
FREQUENCY = 2.267
SPRING, DAMPER = 0.396, 0.078
# Order of the joints: hip and ankle of the legs 1 to 4, as in the observation.
REST = np.array([0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])
SIZE = np.array([0.074, 1.371, 0.953, 0.713, -1.888, 0.09, 0.279, -0.978])
PHASE = np.array([-1.13, -1.143, 1.286, 0.448, -0.295, -0.252, 0.374, 0.082])
OFFSET = np.array([0.241, -0.22, -0.257, -0.026, 0.193, -0.213, -0.165, -0.041])
HEADING_GAIN = np.array([-0.392, -0.078, 0.159, -0.548, 0.051, 0.185, 0.545, 0.097])


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._time = 0.0

    def reset(self, episode_index: int) -> None:
        self._time = 0.0

    def act(self, obs: Any) -> np.ndarray:
        w, x, y, z = (float(part) for part in obs[1:5])
        heading = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        wave = np.sin(2.0 * math.pi * FREQUENCY * self._time + PHASE)
        self._time += STEP
        effort = min(1.0, self._time / RAMP)
        wanted = REST + effort * (OFFSET + SIZE * wave + HEADING_GAIN * heading)
        torque = SPRING * (wanted - obs[5:13]) - DAMPER * obs[19:27]
        # The actuators start with leg 4.
        return np.roll(np.clip(torque, -1.0, 1.0), 2).astype(np.float32)
