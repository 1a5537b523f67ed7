"""Two-link arm by inverse kinematics and a damped spring.

The target is turned into joint angles (law of cosines, elbow up or down, whichever needs the
smaller turn; the choice is kept for the episode). Springs and dampers on both joints bring the
fingertip to the target, each with a small part of the other joint's error and speed. Their eight
numbers were found by an evolution search on the simulator (seeds outside the train cases).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

UPPER, FORE = 0.1, 0.11
"""Distances shoulder to elbow and elbow to fingertip (m)."""
SPRING = np.array([[0.27, 0.085], [0.023, 0.223]])
DAMPER = np.array([[0.05, 0.011], [-0.002, 0.046]])
"""Commands of shoulder and elbow (rows) for the errors and speeds of both (columns)."""
ELBOW_LIMIT = 3.0


def wrap(angle: float) -> float:
    return math.remainder(angle, 2.0 * math.pi)


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._side = 0.0

    def reset(self, episode_index: int) -> None:
        self._side = 0.0

    def act(self, obs: Any) -> np.ndarray:
        shoulder = math.atan2(obs[2], obs[0])
        elbow = math.atan2(obs[3], obs[1])
        speeds = (float(obs[6]), float(obs[7]))
        x, y = float(obs[4]), float(obs[5])
        if self._side == 0.0:
            turn = {side: self._errors(x, y, shoulder, elbow, side) for side in (1.0, -1.0)}
            self._side = min(turn, key=lambda side: turn[side][0] ** 2 + turn[side][1] ** 2)
        errors = self._errors(x, y, shoulder, elbow, self._side)
        command = SPRING @ np.array(errors) - DAMPER @ np.array(speeds)
        return np.clip(command, -1.0, 1.0).astype(np.float32)

    @staticmethod
    def _errors(x: float, y: float, shoulder: float, elbow: float, side: float) -> tuple[float, float]:
        """Angles still to turn at shoulder and elbow, for one of the two arm postures."""
        cosine = (x * x + y * y - UPPER**2 - FORE**2) / (2.0 * UPPER * FORE)
        goal_elbow = side * min(math.acos(max(-1.0, min(1.0, cosine))), ELBOW_LIMIT)
        goal_shoulder = math.atan2(y, x) - math.atan2(FORE * math.sin(goal_elbow), UPPER + FORE * math.cos(goal_elbow))
        return wrap(goal_shoulder - shoulder), goal_elbow - elbow
