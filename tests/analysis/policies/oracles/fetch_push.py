"""Pushing a block by getting behind it and keeping the hand on the line to the goal.

The hand first flies to the point behind the block, seen from the goal, above the table if the
block is in between, and sinks there. Then it drives at the block; the aim is corrected sideways
by the hand's distance from the line block to goal, which steers the block. Near the goal the
drive slows down, and the hand stops when the block has arrived.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GAIN = 16.0
BEHIND = 0.07
"""Distance from the block's centre at which the hand waits to push (m)."""
HOVER = 0.08
"""Height of the hand over the block while it changes sides (m)."""
ARRIVED = 0.035
ON_LINE = 0.02
DRIVE, STEER = 0.05, 1.5
"""Push length per step (m, before the gain) and sideways correction per metre off the line."""
CLOSE = 0.08
"""Distance from the block within which a low hand lifts before it moves."""


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._pushing = False

    def reset(self, episode_index: int) -> None:
        self._pushing = False

    def act(self, obs: Any) -> np.ndarray:
        state = np.asarray(obs["observation"], dtype=float)
        hand, block = state[0:3], state[3:6]
        goal = np.asarray(obs["desired_goal"], dtype=float)
        to_goal = goal[:2] - block[:2]
        distance = float(np.hypot(to_goal[0], to_goal[1]))
        if distance < ARRIVED:
            return np.zeros(4, dtype=np.float32)
        along = to_goal / distance
        across = np.array([-along[1], along[0]])
        offset = hand[:2] - block[:2]
        lag, side = float(-offset @ along), float(offset @ across)
        sink = block[2] - hand[2]
        if lag < 0.02 or abs(side) > 2.0 * ON_LINE:
            self._pushing = False
        if lag > 0.03 and abs(side) < ON_LINE and abs(sink) < 0.025:
            self._pushing = True
        if self._pushing:
            drive = min(distance, DRIVE) * along - STEER * side * across
            return self._command(np.append(drive, sink))
        wait = block[:2] - BEHIND * along - hand[:2]
        if float(np.hypot(wait[0], wait[1])) < 0.03 or lag > BEHIND - 0.02:
            return self._command(np.append(wait, sink))
        lift = max(0.0, sink + HOVER)
        if lift > 0.03 and float(np.hypot(offset[0], offset[1])) < CLOSE:
            wait = 0.0 * wait
        return self._command(np.append(wait, lift))

    @staticmethod
    def _command(move: np.ndarray) -> np.ndarray:
        return np.append(np.clip(GAIN * move, -1.0, 1.0), -1.0).astype(np.float32)
