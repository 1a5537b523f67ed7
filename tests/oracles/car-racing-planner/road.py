"""Middle line of the road: traced in each picture, and remembered where the picture does not show it (any more)."""

from __future__ import annotations

import math

import numpy as np
from car import (
    COLUMN,
    MASS_CENTRE,
    ROW,
    VIEW_ROWS,
    WHEEL_X,
    WHEEL_Y,
    ZOOM_STEPS,
    CarTracker,
    Floats,
    interpolate,
)
from numpy.typing import NDArray

HALF_WIDTH = 6.667
SPACING = 2.0
"""Distance between traced points."""
ACROSS = np.arange(-10.0, 10.01, 0.5)
"""Where a cross-section looks for the edges of the road."""
FIRST_PICTURE = 15
"""Earlier pictures are too coarse; the road is straight at the start."""
NEAR = 4.5
"""Up to here the car hides the road; the line traced from farther away is kept."""
MAX_POINTS = 60


class RoadLine:
    """Points of the middle line in the fixed frame, from just behind the car to as far as the road is known."""

    def __init__(self) -> None:
        ahead = np.arange(-4.0, 56.0, SPACING)
        self.points = np.column_stack((np.zeros_like(ahead), ahead))

    def update(self, obs: NDArray[np.uint8], car: CarTracker) -> None:
        """Trace the road in this picture, starting from the line known so far."""
        if car.pictures <= FIRST_PICTURE:
            return
        self._see(obs, car.pictures)
        known = car.to_car(self.points)
        nearest = int(np.argmin((known**2).sum(axis=1)))
        start = nearest
        while start < min(len(known) - 3, nearest + 5) and known[start, 1] < NEAR:
            start += 1
        direction = known[min(start + 1, len(known) - 1)] - known[max(start - 1, 0)]
        traced = self._trace(known[start], direction / (np.hypot(*direction) + 1e-9))
        line = np.vstack((known[max(0, nearest - 3) : start + 1], *traced))
        if traced:
            beyond = nearest + int(np.argmin(((known[nearest:] - line[-1]) ** 2).sum(axis=1)))
            rest = known[beyond + 1 :]
            joins = ((known[beyond] - line[-1]) ** 2).sum() < 9.0
            if len(rest) and joins and (rest[0] - line[-1]) @ (line[-1] - line[-2]) > 0.5:
                line = np.vstack((line, rest))
        else:
            line = known[max(0, nearest - 3) :]
        self.points = car.to_world(line)

    def _see(self, obs: NDArray[np.uint8], pictures: int) -> None:
        """Set the scale of the picture, and mark its grey pixels."""
        time = min(1.0, pictures / ZOOM_STEPS)
        zoom = 0.6 * (1.0 - time) + 16.2 * time
        self.scale_x, self.scale_y = 0.096 * zoom, 0.12 * zoom
        red, green, blue = np.moveaxis(obs[:VIEW_ROWS].astype(np.int16), 2, 0)
        grey = (np.abs(red - green) < 20) & (np.abs(green - blue) < 20) & (red > 60) & (red < 150)
        self.road = grey.astype(np.float64)

    def _look(self, points: Floats) -> Floats:
        """Return how much road is at points of the car's frame: 0 to 1, and -1 outside the picture."""
        columns, rows = points[:, 0] * self.scale_x + COLUMN, ROW - points[:, 1] * self.scale_y
        outside = (columns < 0) | (columns > 94.999) | (rows < 0) | (rows > VIEW_ROWS - 1.001)
        share, _, _ = interpolate(self.road, np.clip(columns, 0, 94.999), np.clip(rows, 0, VIEW_ROWS - 1.001))
        share[outside] = -1.0
        return share

    def _trace(self, point: Floats, direction: Floats) -> list[Floats]:
        """Follow the road from a point on it: step ahead, then move to the middle between the edges."""
        points: list[Floats] = []
        turn, misses = 0.0, 0
        for _ in range(MAX_POINTS):
            direction = rotated(direction, turn)
            to_right = np.array([direction[1], -direction[0]])
            point = point + SPACING * direction
            share = self._look(point + ACROSS[:, None] * to_right)
            offset = middle(share)
            misses = misses + 1 if offset is None else 0
            if misses and (misses > 2 or share[len(share) // 2] < 0):
                break
            offset = max(-1.2, min(1.2, offset or 0.0))
            bend = -0.25 * offset / SPACING
            turn = max(-0.22, min(0.22, 0.75 * turn + 0.5 * bend))
            point = point + 0.6 * offset * to_right
            direction = rotated(direction, bend)
            points.append(point)
        return points[: len(points) - max(0, misses - 1)] if misses else points

    def sampled(self, spacing: float, beyond: float) -> tuple[Floats, Floats, float]:
        """Return smoothed points at equal distances and the directions there, straight on past the known end.

        The last value is the length of the known part.
        """
        points = self.points.copy()
        for _ in range(2):
            points[1:-1] = 0.25 * points[:-2] + 0.5 * points[1:-1] + 0.25 * points[2:]
        steps = np.diff(points, axis=0)
        length = np.concatenate(([0.0], np.cumsum(np.hypot(steps[:, 0], steps[:, 1]))))
        at = np.arange(0.0, length[-1], spacing)
        line = np.column_stack((np.interp(at, length, points[:, 0]), np.interp(at, length, points[:, 1])))
        last = points[-1] - points[max(0, len(points) - 4)]
        last = last / (np.hypot(*last) + 1e-9)
        line = np.vstack((line, line[-1] + np.arange(spacing, beyond, spacing)[:, None] * last))
        slopes = np.gradient(line, axis=0)
        return line, slopes / np.hypot(slopes[:, 0], slopes[:, 1])[:, None], float(length[-1])


def rotated(vector: Floats, angle: float) -> Floats:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]])


def middle(share: Floats) -> float | None:
    """Return the offset of the road's middle on a cross-section; None where no edge can be seen near it."""
    on = share > 0.5
    spots = np.flatnonzero(on)
    if not len(spots):
        return None
    first = last = int(spots[np.argmin(np.abs(spots - len(share) // 2))])
    if abs(ACROSS[first]) > 5.0:
        return None
    while first > 0 and on[first - 1]:
        first -= 1
    while last < len(share) - 1 and on[last + 1]:
        last += 1
    from_left = from_right = None
    if first > 0 and share[first - 1] >= 0:
        inside = 0.5 * (share[first] - 0.5) / (share[first] - share[first - 1])
        from_left = float(ACROSS[first]) - inside + HALF_WIDTH
    if last < len(share) - 1 and share[last + 1] >= 0:
        inside = 0.5 * (share[last] - 0.5) / (share[last] - share[last + 1])
        from_right = float(ACROSS[last]) + inside - HALF_WIDTH
    if from_left is None or from_right is None:
        return from_left if from_right is None else from_right
    width = from_right - from_left + 2 * HALF_WIDTH
    if width < 5.0:
        return None
    if width > 16.5:  # two roads side by side
        return min(from_left, from_right, key=abs)
    return 0.5 * (from_left + from_right)


def wheels_on_road(car: CarTracker, line: Floats, directions: Floats) -> NDArray[np.bool_]:
    """Return which wheels touch the road, by their distance from its middle line."""
    wheels = car.to_world(np.column_stack((WHEEL_X, WHEEL_Y + MASS_CENTRE)))
    away = wheels[:, None] - line
    nearest = (away**2).sum(axis=2).argmin(axis=1)
    away, along = away[np.arange(4), nearest], directions[nearest]
    return np.abs(away[:, 0] * along[:, 1] - away[:, 1] * along[:, 0]) < HALF_WIDTH + 0.3
