"""Bipedal walker by a three-phase step machine.

One leg carries while the other swings forward. When the carrying leg is behind the hull, the swinging leg is put down;
when it touches the ground, the other one pushes off by stretching its knee, until that is straight or the hull is fast
enough, and the legs swap roles. Springs and dampers pull the joints to the angles of the phase; tilt, tilt rate and
vertical speed of the hull correct all of them. The phases are those of the heuristic that comes with the environment;
the numbers were tuned by an evolution search on the simulator (seeds outside the train cases).
"""

from __future__ import annotations

from typing import Any

import numpy as np

SWING, LAND, PUSH = range(3)
SPEED = 0.2717
SWING_HIP, SWING_KNEE = 1.351, -0.6568
LAND_HIP = 0.113
CARRY_KNEE = 0.09154
BEND = 0.03768
"""Growth of the carrying knee's wanted angle in a step; twice as much above SPEED."""
BEHIND = 0.09909
"""Hip angle of the carrying leg below which the other one is put down."""
PUSH_KNEE, PUSHED = 0.9348, 0.6514
FAST = 1.248
HIP_SPRING, HIP_DAMPER = 0.4598, 0.1029
KNEE_SPRING, KNEE_DAMPER = 1.835, 0.1399
TILT, TILT_RATE = 0.509, 0.708
FALL = 6.357
LEAN = -0.01871


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self.reset(0)

    def reset(self, episode_index: int) -> None:
        self._phase = SWING
        self._swinging = 0
        self._knee = CARRY_KNEE

    def act(self, obs: Any) -> np.ndarray:
        state = obs.tolist()
        legs = (state[4:9], state[9:14])  # hip angle and speed, knee angle and speed, ground contact
        hips: list[float | None] = [None, None]
        knees: list[float | None] = [None, None]
        swing, carry = self._swinging, 1 - self._swinging
        if self._phase == SWING:
            hips[swing], knees[swing] = SWING_HIP, SWING_KNEE
            self._knee = min(self._knee + BEND * (2.0 if state[2] > SPEED else 1.0), CARRY_KNEE)
            knees[carry] = self._knee
            if legs[carry][0] < BEHIND:
                self._phase = LAND
        if self._phase == LAND:
            hips[swing], knees[swing], knees[carry] = LAND_HIP, CARRY_KNEE, self._knee
            if legs[swing][4]:
                self._phase = PUSH
                self._knee = min(legs[swing][2], CARRY_KNEE)
        if self._phase == PUSH:
            knees[swing], knees[carry] = self._knee, PUSH_KNEE
            if legs[carry][2] > PUSHED or state[2] > FAST * SPEED:
                self._phase, self._swinging = SWING, carry
        tilt = TILT * (state[0] - LEAN) + TILT_RATE * state[1]
        commands = []
        for leg, hip, knee in zip(legs, hips, knees, strict=True):
            commands.append(tilt + (0.0 if hip is None else HIP_SPRING * (hip - leg[0]) - HIP_DAMPER * leg[1]))
            stretch = 0.0 if knee is None else KNEE_SPRING * (knee - leg[2]) - KNEE_DAMPER * leg[3]
            commands.append(stretch - FALL * state[3])
        return np.clip(np.array(commands, dtype=np.float32), -1.0, 1.0)
