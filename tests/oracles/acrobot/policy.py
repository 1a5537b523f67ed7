"""Acrobot by energy pumping.

Torque acts on the elbow only, so the power fed into the arm is torque times elbow speed.
The controller always pushes in the direction in which the elbow already turns, and, while the
elbow is nearly still, against the swing of the upper link, which starts the motion and keeps
the two links in the out-of-phase mode that lifts the tip highest.
"""

from __future__ import annotations

from typing import Any

ELBOW_STILL = 0.05
"""Elbow speed (rad/s) below which the swing of the upper link decides."""


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._last = 2

    def reset(self, episode_index: int) -> None:
        self._last = 2

    def act(self, obs: Any) -> int:
        shoulder_speed, elbow_speed = float(obs[4]), float(obs[5])
        if abs(elbow_speed) > ELBOW_STILL:
            self._last = 2 if elbow_speed > 0.0 else 0
        elif abs(shoulder_speed) > ELBOW_STILL:
            self._last = 0 if shoulder_speed > 0.0 else 2
        return self._last
