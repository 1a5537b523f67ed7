"""Mountain car by resonance.

The engine is weaker than the slope, so the car pushes in the direction in which it already rolls: every half swing then
adds energy. The energy gained grows with action times speed, while the reward charges the square of the action, so the
push is weak and grows with the speed: the weakest that arrives well before the end of the episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PUSH, PUSH_PER_SPEED = 0.05, 3.7
"""Size of the engine command at rest, and its growth with the speed."""


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        pass

    def reset(self, episode_index: int) -> None:
        pass

    def act(self, obs: Any) -> np.ndarray:
        velocity = float(obs[1])
        push = min(PUSH + PUSH_PER_SPEED * abs(velocity), 1.0)
        return np.array([push if velocity >= 0.0 else -push], dtype=np.float32)
