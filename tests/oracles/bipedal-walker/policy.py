"""Bipedal walker by a two-phase step machine.

One leg swings while the other carries. In the lift phase the swinging leg is thrown forward for
a few steps; in the landing phase it stretches until its foot touches the ground, and the legs
swap roles. Springs and dampers pull the joints to the angles of the phase, and the hip of the
carrying leg balances the hull by its tilt, tilt rate and forward speed. The numbers were tuned
by an evolution search on the simulator (seeds outside the train cases).
"""

from __future__ import annotations

from typing import Any

import numpy as np

LIFT, LAND = 0, 1
SWING_HIP, SWING_KNEE = (1.46, 0.694), (0.067, 1.129)
CARRY_HIP, CARRY_KNEE = (-0.503, -0.307), (1.034, 0.693)
"""Wanted angles in the lift and the landing phase, in the observation's terms."""
LIFT_STEPS, LAND_STEPS = 5, 28
"""Length of the lift phase, and greatest length of the landing phase."""
HIP_SPRING, HIP_DAMPER = 2.843, 0.521
KNEE_SPRING, KNEE_DAMPER = 1.745, 0.175
TILT_GAIN, TILT_RATE_GAIN, SPEED_GAIN = 1.157, 0.632, 0.115
SPEED = 0.3


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self.reset(0)

    def reset(self, episode_index: int) -> None:
        self._swinging = 0
        self._phase = LIFT
        self._steps = 0

    def act(self, obs: Any) -> np.ndarray:
        legs = (obs[4:9], obs[9:14])  # hip angle and speed, knee angle and speed, ground contact
        self._steps += 1
        if self._phase == LIFT and self._steps >= LIFT_STEPS:
            self._phase, self._steps = LAND, 0
        elif self._phase == LAND and (legs[self._swinging][4] > 0.5 or self._steps >= LAND_STEPS):
            self._phase, self._steps, self._swinging = LIFT, 0, 1 - self._swinging
        swing, carry = legs[self._swinging], legs[1 - self._swinging]
        balance = TILT_GAIN * obs[0] + TILT_RATE_GAIN * obs[1] + SPEED_GAIN * (obs[2] - SPEED)
        swinging = self._pull(swing, SWING_HIP[self._phase], SWING_KNEE[self._phase])
        carrying = self._pull(carry, CARRY_HIP[self._phase], CARRY_KNEE[self._phase])
        carrying = (carrying[0] - balance, carrying[1])
        both = (*swinging, *carrying) if self._swinging == 0 else (*carrying, *swinging)
        return np.clip(np.array(both, dtype=np.float32), -1.0, 1.0)

    @staticmethod
    def _pull(leg: Any, hip: float, knee: float) -> tuple[float, float]:
        """Commands that pull the hip and knee of a leg to the wanted angles."""
        return (
            HIP_SPRING * (hip - float(leg[0])) - HIP_DAMPER * float(leg[1]),
            KNEE_SPRING * (knee - float(leg[2])) - KNEE_DAMPER * float(leg[3]),
        )
