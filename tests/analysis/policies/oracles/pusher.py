"""Pusher by linear feedback to the torques.

The features are the joint angles and speeds, the ways from the wrist to the puck and to the point behind the puck as
seen from the goal, and the way from the puck to the goal. The weights were found by an evolution strategy on the
simulator (seeds outside the train cases).
"""

from __future__ import annotations

from typing import Any

import numpy as np

BEHIND = 0.08
"""Distance of the point behind the puck from its centre (m)."""
SPEED_SCALE, WAY_SCALE = 0.2, 3.0
# In hundredths, a row for each joint. Columns: constant, 7 angles, 7 speeds, to the puck, behind it, puck to goal.
WEIGHTS = 0.01 * np.array(
    """
21 -26 12 -9 -3 -30 5 -14 -15 91 -10 -24 6 22 -48 -12 52 31 42 76 81 12 -43 -12
-6 -16 22 -20 27 17 9 14 -47 -28 -18 20 10 -17 11 23 6 -87 -80 -18 -31 -38 17 0
-48 8 3 -91 54 -15 -14 -18 -21 21 -48 -27 27 -7 -19 63 -31 -1 31 -7 -42 -7 10 -17
-10 -36 -16 34 -54 17 -4 -37 -22 40 13 -30 24 -24 -6 96 14 -49 16 -4 -27 22 -3 -11
9 -18 3 -6 -2 -83 -1 -28 -22 -37 -61 -14 -26 17 -25 -25 -21 37 20 -39 -35 -16 -9 -14
19 -16 24 -1 25 -9 -56 -7 -23 8 -44 2 -37 5 -51 -22 -23 -2 -21 -22 49 -21 6 30
10 25 -3 19 -2 5 9 -89 -12 -2 14 29 66 -2 -42 -23 -6 17 -8 -24 40 20 52 -28
""".split(),
    dtype=float,
).reshape(7, 24)


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        pass

    def reset(self, episode_index: int) -> None:
        pass

    def act(self, obs: Any) -> np.ndarray:
        wrist, puck, goal = obs[14:17], obs[17:20], obs[20:23]
        away = puck - goal
        away[2] = 0.0
        behind = puck + BEHIND * away / (np.hypot(away[0], away[1]) + 1e-6)
        ways = WAY_SCALE * np.concatenate([puck - wrist, behind - wrist, goal - puck])
        features = np.concatenate([[1.0], obs[:7], SPEED_SCALE * obs[7:14], ways])
        return np.clip(WEIGHTS @ features, -2.0, 2.0).astype(np.float32)
