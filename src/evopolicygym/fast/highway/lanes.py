"""The lanes of highway-env as plain numbers, and a road network that finds the closest lane by looking at few."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from highway_env.road.lane import CircularLane, SineLane, StraightLane
from highway_env.road.road import RoadNetwork

from evopolicygym.fast.highway.arithmetic import PI, TAU, Pairs, arctan, arctan2, cos, sin

MARGIN: Final = 5.0  # AbstractLane.VEHICLE_LENGTH
Box = tuple[float, float, float, float]  # left, right, low, high


class FastLane(ABC):
    """A lane as plain numbers. ``index`` is its key in the road network, ``stock`` the original."""

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
    def local_coordinates(self, car: Any) -> tuple[float, float]:
        """``local_coordinates`` of a car: longitudinal and lateral."""

    @abstractmethod
    def holds(self, car: Any) -> float | None:
        """The longitudinal coordinate of a car for which ``on_lane`` with margin 1 is true, otherwise None."""

    @abstractmethod
    def heading_at(self, longitudinal: float) -> float: ...

    def reachable(self, car: Any) -> bool:
        """AbstractLane.is_reachable_from (highway_env/road/lane.py)."""
        longitudinal, lateral = self.local_coordinates(car)
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

    def local_coordinates(self, car: Any) -> tuple[float, float]:
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
        longitudinal, lateral = self.local_coordinates(car)
        return longitudinal if abs(lateral) <= self.near else None

    def heading_at(self, longitudinal: float) -> float:
        """StraightLane.heading_at and SineLane.heading_at."""
        if not self.amplitude:
            return self.heading
        return self.heading + float(arctan(self.slope * cos(self.pulsation * longitudinal + self.phase)))

    def box(self) -> Box:
        """Return a box: the distance to the lane is at least the sum of the distances to the box, per axis."""
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

    def local_coordinates(self, car: Any) -> tuple[float, float]:
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
        longitudinal, lateral = self.local_coordinates(car)
        return longitudinal if abs(lateral) <= self.near and -MARGIN <= longitudinal < self.high else None

    def heading_at(self, longitudinal: float) -> float:
        """CircularLane.heading_at."""
        return self.turn * longitudinal / self.radius + self.start + self.quarter


def compile_lane(index: tuple[str, str, int], stock: Any) -> FastLane | None:
    """Return the lane as plain numbers; None if these formulas do not cover it."""
    if stock.forbidden or stock.speed_limit is None:
        return None
    if type(stock) is CircularLane and 0 < stock.length < PI * stock.radius:
        return CircularFastLane(index, stock)
    along_axis = sorted(abs(stock.direction).tolist()) == [0.0, 1.0] if isinstance(stock, StraightLane) else False
    return StraightFastLane(index, stock) if type(stock) in (StraightLane, SineLane) and along_axis else None


def union(boxes: Iterable[Box]) -> Box:
    left, right, low, high = zip(*boxes, strict=True)
    return min(left), max(right), min(low), max(high)


DOUBT: Final = 1e-6  # metres or radians: far above the rounding of distances, far below distances between lanes
FAR: Final = 1e4  # metres or radians: beyond this the bounds on rounding do not hold


class Rings:
    """Circular lanes that together make full circles about one centre, all in one sense of rotation.

    ``limits`` are the angles at which lanes end, sorted within one turn from the first, which is there twice; ``spans``
    are, for the span after each limit, the lanes that pass through it, one per circle.
    """

    def __init__(self, arcs: list[CircularFastLane]) -> None:
        self.centre = arcs[0].centre
        self.quarter = arcs[0].quarter
        self.inner, self.outer = min(arc.radius for arc in arcs), max(arc.radius for arc in arcs)
        self.origin = arcs[0].start
        self.limits = _distinct([(angle - self.origin) % TAU for arc in arcs for angle in (arc.start, arc.last)])
        middles = [self.origin + (start + end) / 2 for start, end in pairwise(self.limits)]
        self.spans = [[arc for arc in arcs if _passes(arc, middle)] for middle in middles]
        self.complete = (
            len({arc.centre for arc in arcs}) == len({arc.turn for arc in arcs}) == 1
            and all({arc.radius for arc in span} == {arc.radius for arc in arcs} for span in self.spans)
            and all(len({arc.radius for arc in span}) == len(span) for span in self.spans)
        )

    def distances(
        self, x: float, y: float, heading: float, limit: float
    ) -> list[tuple[float, CircularFastLane]] | None:
        """Return the distances of the lanes through the angle of a car: empty if all are beyond the limit, None if the
        car is too close to the end of one.

        A lane that does not pass there is farther than the one on the same circle that does: both have the same
        lateral distance and the same heading, and it adds a way along the circle to one of its ends.
        """
        dx, dy = x - self.centre[0], y - self.centre[1]
        radius = math.hypot(dx, dy)
        if not self.inner - limit < radius < self.outer + limit:
            return []
        angle = math.atan2(dy, dx)
        along = (angle - self.origin) % TAU
        i = bisect(self.limits, along)
        if radius < DOUBT or along - self.limits[i - 1] < DOUBT or self.limits[i] - along < DOUBT:
            return None
        turned = abs((heading - angle - self.quarter + PI) % TAU - PI)
        return [(abs(arc.radius - radius) + turned, arc) for arc in self.spans[i - 1]]


class RoadIndex:
    """All lanes of one network, grouped so that most can be ruled out at once."""

    def __init__(self, lanes: list[FastLane]) -> None:
        self.lanes = {lane.index: lane for lane in lanes}
        self.first = lanes[0]
        self.arms = _arms([lane for lane in lanes if isinstance(lane, StraightFastLane)])
        arcs = [lane for lane in lanes if isinstance(lane, CircularFastLane)]
        self.rings = Rings(arcs) if arcs else None

    def closest(self, x: float, y: float, heading: float, guess: FastLane) -> FastLane | None:
        """RoadNetwork.get_closest_lane_index (highway_env/road/road.py); None where rounding could decide.

        Only the order of the distances matters. They are computed here up to rounding, for all lanes that are not
        ruled out by a lower bound, and the result stands if the runner-up is farther by more than rounding.
        Ruled out are lanes whose box is farther away than ``guess`` is (any lane; the last one is a good guess) and
        circular lanes as ``Rings.distances`` says.
        """
        if not abs(x) + abs(y) + abs(heading) < FAR:
            return None
        best, second, winner = math.inf, math.inf, guess
        if isinstance(guess, StraightFastLane):
            best = guess.distance(x, y, heading, math.inf)
        if self.rings is not None:
            arcs = self.rings.distances(x, y, heading, best + DOUBT)
            if arcs is None:
                return None
            for distance, arc in arcs:
                if distance < best:
                    best, second, winner = distance, best, arc
                elif distance < second:
                    second = distance
        limit = best + DOUBT
        x0, x1, y0, y1 = x - limit, x + limit, y - limit, y + limit
        for (left, right, low, high), lines in self.arms:
            if right < x0 or left > x1 or high < y0 or low > y1:
                continue
            for (left, right, low, high), line in lines:
                if line is guess or right < x0 or left > x1 or high < y0 or low > y1:
                    continue
                distance = line.distance(x, y, heading, limit)
                if distance < best:
                    best, second, winner = distance, best, line
                elif distance < second:
                    second = distance
        return winner if second - best > DOUBT else None


class FastNetwork(RoadNetwork):  # type: ignore[misc]
    """The stock network with a faster search. ``roads`` is None where a lane is of a kind that is not compiled."""

    roads: RoadIndex | None

    def get_closest_lane_index(self, position: Any, heading: float | None = None) -> Any:
        """RoadNetwork.get_closest_lane_index; where ``RoadIndex.closest`` cannot decide, the stock method does."""
        if self.roads is not None and heading is not None:
            x, y = position.tolist()
            if lane := self.roads.closest(x, y, float(heading), self.roads.first):
                return lane.index
        return super().get_closest_lane_index(position, heading)


def speed_up(network: Any) -> None:
    """Give a finished stock network the faster search."""
    lanes = [compile_lane(index, stock) for index, stock in network.lanes_dict().items()]
    covered = [lane for lane in lanes if lane is not None]
    roads = RoadIndex(covered) if len(covered) == len(lanes) else None
    network.__class__ = FastNetwork
    network.roads = roads if roads and (roads.rings is None or roads.rings.complete) else None


def _arms(lines: list[StraightFastLane]) -> list[tuple[Box, list[tuple[Box, StraightFastLane]]]]:
    groups: dict[tuple[bool, bool], list[tuple[Box, StraightFastLane]]] = {}
    for line in lines:
        groups.setdefault((line.along_x, line.start + line.sign * line.length / 2 > 0), []).append((line.box(), line))
    return [(union(box for box, _ in group), group) for group in groups.values()]


def _distinct(angles: list[float]) -> list[float]:
    """Return the angles sorted, from 0 to a full turn, without those that equal another up to rounding."""
    kept = [0.0]
    for angle in sorted(angles):
        if angle - kept[-1] > DOUBT and TAU - angle > DOUBT:
            kept.append(angle)
    return [*kept, TAU]


def _passes(arc: CircularFastLane, angle: float) -> bool:
    return (arc.turn * (angle - arc.start)) % TAU < arc.turn * (arc.last - arc.start)
