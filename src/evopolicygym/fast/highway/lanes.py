"""The lanes of highway-env as plain numbers: local coordinates to the bit, and which lane is the closest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from highway_env.road.lane import CircularLane, SineLane, StraightLane

from evopolicygym.fast.highway.exact import PI, TAU, Pairs, arctan, arctan2, cos, sin

MARGIN: Final = 5.0  # AbstractLane.VEHICLE_LENGTH
Box = tuple[float, float, float, float]  # left, right, low, high


class FastLane(ABC):
    """What straight and circular lanes share. ``index`` is the key in the road network, ``stock`` the original."""

    __slots__ = ("end", "high", "index", "length", "near", "reach", "speed_limit", "stock")

    def __init__(self, index: tuple[str, str, int], stock: Any) -> None:
        self.index = index
        self.stock = stock
        self.length = float(stock.length)
        self.end = self.length - MARGIN / 2  # AbstractLane.after_end
        self.high = self.length + MARGIN  # AbstractLane.on_lane and is_reachable_from
        self.near = stock.width / 2 + 1  # on_lane with margin 1
        self.reach = 2 * stock.width  # is_reachable_from
        self.speed_limit = float(stock.speed_limit)

    @abstractmethod
    def place(self, car: Any) -> tuple[float, float]:
        """``local_coordinates`` of a car: longitudinal and lateral."""

    @abstractmethod
    def holds(self, car: Any) -> float | None:
        """The longitudinal coordinate of a car for which ``on_lane`` with margin 1 is true, otherwise None."""

    @abstractmethod
    def heading_at(self, longitudinal: float) -> float: ...

    def reachable(self, car: Any) -> bool:
        """AbstractLane.is_reachable_from (highway_env/road/lane.py)."""
        longitudinal, lateral = self.place(car)
        return abs(lateral) <= self.reach and 0 <= longitudinal < self.high


class StraightFastLane(FastLane):
    """A StraightLane or SineLane along one of the axes.

    The dot products with the direction are then a coordinate or its negative, whatever way BLAS computes them: one
    product is exact and the other is zero. Adding 0.0 makes a zero positive, as the sum of products that starts at 0.0.
    """

    __slots__ = ("along_x", "amplitude", "heading", "phase", "pulsation", "side", "sign", "slope", "start", "zero")

    def __init__(self, index: tuple[str, str, int], stock: Any) -> None:
        super().__init__(index, stock)
        self.along_x = stock.direction[0] != 0
        across = int(self.along_x)
        self.sign, self.side = float(stock.direction[1 - across]), float(stock.direction_lateral[across])
        self.start, self.zero = float(stock.start[1 - across]), float(stock.start[across])
        self.heading = float(stock.heading)
        self.amplitude = float(getattr(stock, "amplitude", 0.0))
        self.pulsation = float(getattr(stock, "pulsation", 0.0))
        self.phase = float(getattr(stock, "phase", 0.0))
        self.slope = self.amplitude * self.pulsation

    def place(self, car: Any) -> tuple[float, float]:
        """StraightLane.local_coordinates and SineLane.local_coordinates."""
        x, y = (car.x, car.y) if self.along_x else (car.y, car.x)
        longitudinal = self.sign * (x - self.start) + 0.0
        lateral = self.side * (y - self.zero) + 0.0
        if self.amplitude:
            lateral -= self.amplitude * sin(self.pulsation * longitudinal + self.phase)
        return longitudinal, lateral

    def holds(self, car: Any) -> float | None:
        along = self.sign * ((car.x if self.along_x else car.y) - self.start)
        if not -MARGIN <= along < self.high:
            return None
        longitudinal, lateral = self.place(car)
        return longitudinal if abs(lateral) <= self.near else None

    def heading_at(self, longitudinal: float) -> float:
        """StraightLane.heading_at and SineLane.heading_at."""
        if not self.amplitude:
            return self.heading
        return self.heading + float(arctan(self.slope * cos(self.pulsation * longitudinal + self.phase)))

    def box(self) -> Box:
        """What the lane covers: the distance to the lane is at least the sum of the distances to the box, per axis."""
        far = self.start + self.sign * self.length
        along = (min(self.start, far), max(self.start, far))
        across = (self.zero - abs(self.amplitude), self.zero + abs(self.amplitude))
        return (*along, *across) if self.along_x else (*across, *along)

    def distance(self, x: float, y: float, heading: float, limit: float) -> float:
        """AbstractLane.distance_with_heading up to rounding (1e-11); where it is above ``limit``, a lower bound."""
        along, across = (x, y) if self.along_x else (y, x)
        longitudinal = self.sign * (along - self.start)
        lateral, direction = self.side * (across - self.zero), self.heading
        if self.amplitude:
            wave = self.pulsation * longitudinal + self.phase
            lateral -= self.amplitude * math.sin(wave)
            direction += math.atan(self.slope * math.cos(wave))
        beyond = -longitudinal if longitudinal < 0.0 else max(longitudinal - self.length, 0.0)
        distance = abs(lateral) + beyond
        return distance if distance > limit else distance + abs((heading - direction + PI) % TAU - PI)


class CircularFastLane(FastLane):
    """A CircularLane. The centre is one for all lanes, so a car keeps its ``angle`` and ``radius`` about it."""

    __slots__ = ("centre", "inner", "last", "outer", "pairs", "quarter", "radius", "start", "turn")

    def __init__(self, index: tuple[str, str, int], stock: Any) -> None:
        super().__init__(index, stock)
        self.radius = float(stock.radius)
        self.start = float(stock.start_phase)
        self.turn = float(stock.direction)
        self.quarter = PI / 2 * self.turn
        self.last = float(stock.end_phase)
        self.centre = (float(stock.center[0]), float(stock.center[1]))
        self.pairs = Pairs()
        self.inner = max(self.radius - self.near, 0.0) ** 2 - 1.0  # squared radii: outside of these, certainly off
        self.outer = (self.radius + self.near) ** 2 + 1.0

    def place(self, car: Any) -> tuple[float, float]:
        """CircularLane.local_coordinates: the same operations in the same order."""
        if car.angle is None:
            dx, dy = car.x - self.centre[0], car.y - self.centre[1]
            car.angle, car.radius = float(arctan2(dy, dx)), self.pairs.norm(dx, dy)
        start = self.start
        angle = start + ((car.angle - start + PI) % TAU - PI)
        return self.turn * (angle - start) * self.radius, self.turn * (self.radius - car.radius)

    def holds(self, car: Any) -> float | None:
        if not self.inner < (car.x - self.centre[0]) ** 2 + (car.y - self.centre[1]) ** 2 < self.outer:
            return None
        longitudinal, lateral = self.place(car)
        return longitudinal if abs(lateral) <= self.near and -MARGIN <= longitudinal < self.high else None

    def heading_at(self, longitudinal: float) -> float:
        """CircularLane.heading_at."""
        return self.turn * longitudinal / self.radius + self.start + self.quarter


def compiled(index: tuple[str, str, int], stock: Any) -> FastLane | None:
    """None for a lane that these formulas do not cover."""
    if stock.forbidden or stock.speed_limit is None:
        return None
    if type(stock) is CircularLane and 0 < stock.length < PI * stock.radius:
        return CircularFastLane(index, stock)
    along_axis = sorted(abs(stock.direction).tolist()) == [0.0, 1.0] if isinstance(stock, StraightLane) else False
    return StraightFastLane(index, stock) if type(stock) in (StraightLane, SineLane) and along_axis else None


def union(boxes: Iterable[Box]) -> Box:
    left, right, low, high = zip(*boxes, strict=True)
    return min(left), max(right), min(low), max(high)
