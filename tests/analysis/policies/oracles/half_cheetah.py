"""Half cheetah by a tuned running gait.

Every joint is driven by a sine wave of one common frequency with its own size, phase and offset;
a small correction proportional to the pitch of the body and its rate keeps the body level, and
the waves grow slowly at the start, which prevents falls. The 31 numbers of the gait were found
by an evolution search on the simulator (seeds outside the train cases).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

STEP = 0.05
"""Seconds between two actions."""
RAMP = 1.6
"""Seconds over which the gait grows to full strength, so that the start cannot tip the body over."""
FREQUENCY = 4.278
# Order of the joints: back thigh, back shin, back foot, front thigh, front shin, front foot.
SIZE = np.array([0.712, -1.74, 1.643, 0.891, 1.084, 0.678])
PHASE = np.array([-2.286, -3.359, -2.576, 0.697, 0.797, 0.171])
OFFSET = np.array([0.493, -0.048, -0.504, -0.223, -0.105, -0.02])
PITCH_GAIN = np.array([-0.277, -0.104, 0.275, 0.055, -0.688, 0.277])
PITCH_RATE_GAIN = 0.1 * np.array([0.131, -0.231, -0.557, 0.43, 0.222, 0.085])


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._time = 0.0

    def reset(self, episode_index: int) -> None:
        self._time = 0.0

    def act(self, obs: Any) -> np.ndarray:
        wave = np.sin(2.0 * math.pi * FREQUENCY * self._time + PHASE)
        self._time += STEP
        effort = min(1.0, self._time / RAMP)
        action = effort * (OFFSET + SIZE * wave) + PITCH_GAIN * obs[1] + PITCH_RATE_GAIN * obs[10]
        return np.clip(action, -1.0, 1.0).astype(np.float32)
