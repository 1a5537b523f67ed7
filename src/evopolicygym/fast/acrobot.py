"""Acrobot-v1, fast: a step on plain floats in place of small arrays and numpy's scalars."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
from gymnasium.envs.classic_control import acrobot

stock: Any = acrobot
State = tuple[float, float, float, float]


def upgrade(env: Any) -> None:
    """Make a stock ``AcrobotEnv`` fast, before its first reset."""
    env.__class__ = FastAcrobot


def cos(angle: float) -> float:
    """Return numpy's cosine, as stock does: that of another library may differ in the last bit."""
    return float(np.cos(angle))


def sin(angle: float) -> float:
    return float(np.sin(angle))


def moved(state: State, rate: State, time: float) -> State:
    """``state + time * rate``."""
    (a, b, c, d), (e, f, g, h) = state, rate
    return a + time * e, b + time * f, c + time * g, d + time * h


class FastAcrobot(stock.AcrobotEnv):  # type: ignore[misc]
    """``AcrobotEnv`` that integrates with Python's floats."""

    state: Any

    def step(self, a: Any) -> Any:
        """``AcrobotEnv.step`` (classic_control/acrobot.py) with its ``rk4``, ``_terminal`` and ``_get_ob``.

        The state is the same array of doubles after the step. ``rk4`` adds and multiplies arrays element by element,
        which is what happens here, in the same order; the fifth element, the torque, has the rate zero and stays.
        """
        if self.book_or_nips == "nips":
            return super().step(a)
        torque = self.AVAIL_TORQUE[a]
        if self.torque_noise_max > 0:
            torque += self.np_random.uniform(-self.torque_noise_max, self.torque_noise_max)
        t1, t2, v1, v2 = self._integrate(tuple(self.state.tolist()), float(torque))
        t1, t2 = stock.wrap(t1, -pi, pi), stock.wrap(t2, -pi, pi)
        v1, v2 = stock.bound(v1, -self.MAX_VEL_1, self.MAX_VEL_1), stock.bound(v2, -self.MAX_VEL_2, self.MAX_VEL_2)
        self.state = np.array((t1, t2, v1, v2))
        c1 = cos(t1)
        terminated = -c1 - cos(t2 + t1) > 1.0
        if self.render_mode == "human":
            self.render()
        observation = np.array((c1, sin(t1), cos(t2), sin(t2), v1, v2), dtype=np.float32)
        return observation, 0.0 if terminated else -1.0, terminated, False, {}

    def _integrate(self, state: Any, torque: float) -> State:
        """One step of ``rk4``: classical Runge-Kutta over the time ``dt``."""
        dt = self.dt - 0
        half, sixth = dt / 2.0, dt / 6.0
        k1 = self._rates(state, torque)
        k2 = self._rates(moved(state, k1, half), torque)
        k3 = self._rates(moved(state, k2, half), torque)
        k4 = self._rates(moved(state, k3, dt), torque)
        a, b, c, d = (r1 + 2 * r2 + 2 * r3 + r4 for r1, r2, r3, r4 in zip(k1, k2, k3, k4, strict=True))
        return moved(state, (a, b, c, d), sixth)

    def _rates(self, state: State, torque: float) -> State:
        """``AcrobotEnv._dsdt`` as in the book: the same operations on doubles, with each sine and cosine taken once."""
        m1, m2, l1, g = self.LINK_MASS_1, self.LINK_MASS_2, self.LINK_LENGTH_1, 9.8
        c1, c2, i1, i2 = self.LINK_COM_POS_1, self.LINK_COM_POS_2, self.LINK_MOI, self.LINK_MOI
        t1, t2, v1, v2 = state
        cos2, sin2 = cos(t2), sin(t2)
        d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos2) + i1 + i2
        d2 = m2 * (c2**2 + l1 * c2 * cos2) + i2
        phi2 = m2 * c2 * g * cos(t1 + t2 - pi / 2.0)
        phi1 = -m2 * l1 * c2 * v2**2 * sin2 - 2 * m2 * l1 * c2 * v2 * v1 * sin2
        phi1 = phi1 + (m1 * c1 + m2 * l1) * g * cos(t1 - pi / 2) + phi2
        push = torque + d2 / d1 * phi1 - m2 * l1 * c2 * v1**2 * sin2 - phi2
        a2 = push / (m2 * c2**2 + i2 - d2**2 / d1)
        return v1, v2, -(d2 * a2 + phi1) / d1, a2
