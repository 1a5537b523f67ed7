"""Pick and place with a reach, grasp, carry sequence.

The open gripper flies above the block, sinks around it once it is centred, and closes. After a
few closed steps the hand moves straight to the goal with the fingers shut, aiming a little off
by the offset between block and goal, so that the block (not the hand) ends at the goal. A block
that slipped out of the fingers is approached again from above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GAIN = 30.0
"""Command per metre of hand error; a full command moves the hand by roughly 3 cm a step."""
HOVER = 0.02
CENTRED = 0.03
HELD = 0.03
CLOSING_STEPS = 2
OPEN, SHUT = 1.0, -1.0


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._closed_for = 0

    def reset(self, episode_index: int) -> None:
        self._closed_for = 0

    def act(self, obs: Any) -> np.ndarray:
        state = np.asarray(obs["observation"], dtype=float)
        hand, block = state[0:3], state[3:6]
        goal = np.asarray(obs["desired_goal"], dtype=float)
        offset = block - hand
        centred = float(np.hypot(offset[0], offset[1])) < CENTRED
        if centred and abs(offset[2]) < HELD:
            self._closed_for += 1
            move = goal - block if self._closed_for > CLOSING_STEPS else offset
            return self._command(move, SHUT)
        self._closed_for = 0
        if not centred:
            offset = offset + np.array([0.0, 0.0, HOVER])
        return self._command(offset, OPEN)

    @staticmethod
    def _command(move: np.ndarray, fingers: float) -> np.ndarray:
        return np.append(np.clip(GAIN * move, -1.0, 1.0), fingers).astype(np.float32)
