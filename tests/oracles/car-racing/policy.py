"""Car racing by tracing the grey road in polar coordinates around the car.

On circles of growing radius around the car, the stretch of road pixels that continues the
previous circle's stretch gives the bearing of the road there, which follows the road into bends
as far as the picture shows it. The wheels are turned in proportion to the bearing a short
distance ahead; the wanted speed falls with the bearing of the road further on. The speed is read
from the white bar at the bottom of the picture and held by gas and brake.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

CAR_ROW, CAR_COLUMN = 71, 47.5
RADII = np.arange(8, 64, 3)
BEARINGS = np.radians(np.arange(-120, 121, 3))
ROWS = np.rint(CAR_ROW - RADII[:, None] * np.cos(BEARINGS)).astype(int)
COLUMNS = np.rint(CAR_COLUMN + RADII[:, None] * np.sin(BEARINGS)).astype(int)
INSIDE = (ROWS >= 0) & (ROWS < 83) & (COLUMNS >= 0) & (COLUMNS < 96)
ROWS, COLUMNS = np.clip(ROWS, 0, 82), np.clip(COLUMNS, 0, 95)

FAST, SLOW = 105.0, 46.0
"""Wanted speed on a straight road and in the tightest bend."""
BEND_COST = 70.0
"""Loss of wanted speed per radian of bearing."""
STEER = 1.5
START_STEPS = 20
"""The picture zooms in at the start, where the road is straight."""


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._steps = 0
        self._bearing = 0.0

    def reset(self, episode_index: int) -> None:
        self._steps = 0
        self._bearing = 0.0

    def act(self, obs: Any) -> np.ndarray:
        self._steps += 1
        if self._steps <= START_STEPS:
            return np.array([0.0, 0.5, 0.0], dtype=np.float32)
        speed = max(0.0, float(obs[84:95, 12, 0].sum()) - 50.0) / 11.8
        trace = self._trace(obs)
        if not trace:
            return np.array([math.copysign(0.6, self._bearing), 0.05 * (speed < 15.0), 0.0], dtype=np.float32)
        ahead = 12.0 + 0.25 * speed
        self._bearing = min(trace, key=lambda point: abs(point[0] - ahead))[1]
        bend = max(abs(bearing) * min(1.0, 30.0 / radius) for radius, bearing in trace)
        wanted = max(SLOW, FAST - BEND_COST * bend)
        if trace[-1][0] < 35.0:
            wanted = min(wanted, 50.0)
        gas = min(0.8, max(0.0, 0.05 * (wanted - speed)))
        brake = min(0.6, max(0.0, 0.04 * (speed - wanted - 3.0)))
        steer = max(-1.0, min(1.0, STEER * self._bearing))
        if abs(steer) > 0.5:
            gas *= 0.5
        return np.array([steer, gas, brake], dtype=np.float32)

    @staticmethod
    def _trace(obs: np.ndarray) -> list[tuple[float, float]]:
        """Radius and bearing of the road's middle on every circle, as far as it can be followed."""
        pixels = obs[ROWS, COLUMNS].astype(np.int16)
        red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
        road = INSIDE & (abs(red - green) < 16) & (abs(green - blue) < 16) & (red > 70) & (red < 140)
        padded = np.zeros((len(RADII), len(BEARINGS) + 2), dtype=np.int8)
        padded[:, 1:-1] = road
        circles, edges = np.nonzero(np.diff(padded, axis=1))
        stretches: list[list[tuple[float, float]]] = [[] for _ in RADII]
        for circle, first, end in zip(circles[::2].tolist(), edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - first > 1:
                stretches[circle].append((float(BEARINGS[first]), float(BEARINGS[end - 1])))
        trace: list[tuple[float, float]] = []
        bearing, misses = 0.0, 0
        for radius, choices in zip(RADII.tolist(), stretches, strict=True):
            reach = 0.35 if trace else math.pi
            near = [s for s in choices if s[0] - reach < bearing < s[1] + reach]
            if not near:
                misses += 1
                if trace and misses > 1:
                    break
                continue
            first_bearing, last_bearing = min(near, key=lambda s: abs(0.5 * (s[0] + s[1]) - bearing))
            bearing = 0.5 * (first_bearing + last_bearing)
            trace.append((float(radius), bearing))
        return trace
