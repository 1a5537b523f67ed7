"""A road network that finds the closest lane by looking at few lanes."""

from __future__ import annotations

import math
from bisect import bisect
from itertools import pairwise
from typing import Any, Final

from highway_env.road.road import RoadNetwork

from evopolicygym.fast.highway.exact import PI, TAU
from evopolicygym.fast.highway.lanes import Box, CircularFastLane, FastLane, StraightFastLane, compiled, union

DOUBT: Final = 1e-6  # metres or radians: far above the rounding of any distance below, far below what tells lanes apart
FAR: Final = 1e4  # metres or radians: beyond this, rounding is not looked into


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
        middles = [self.origin + (one + other) / 2 for one, other in pairwise(self.limits)]
        self.spans = [[arc for arc in arcs if _passes(arc, middle)] for middle in middles]
        self.complete = (
            len({arc.centre for arc in arcs}) == len({arc.turn for arc in arcs}) == 1
            and all({arc.radius for arc in span} == {arc.radius for arc in arcs} for span in self.spans)
            and all(len({arc.radius for arc in span}) == len(span) for span in self.spans)
        )

    def distances(
        self, x: float, y: float, heading: float, limit: float
    ) -> list[tuple[float, CircularFastLane]] | None:
        """Of the lanes through the angle of a car; none if all are beyond the limit, None too close to the end of one.

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


class Roads:
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

    roads: Roads | None

    def get_closest_lane_index(self, position: Any, heading: float | None = None) -> Any:
        """RoadNetwork.get_closest_lane_index; where ``Roads.closest`` cannot decide, the stock method does."""
        if self.roads is not None and heading is not None:
            x, y = position.tolist()
            if lane := self.roads.closest(x, y, float(heading), self.roads.first):
                return lane.index
        return super().get_closest_lane_index(position, heading)


def quicken(network: Any) -> None:
    """Give a finished stock network the faster search."""
    lanes = [compiled(index, stock) for index, stock in network.lanes_dict().items()]
    known = [lane for lane in lanes if lane is not None]
    roads = Roads(known) if len(known) == len(lanes) else None
    network.__class__ = FastNetwork
    network.roads = roads if roads and (roads.rings is None or roads.rings.complete) else None


def _arms(lines: list[StraightFastLane]) -> list[tuple[Box, list[tuple[Box, StraightFastLane]]]]:
    groups: dict[tuple[bool, bool], list[tuple[Box, StraightFastLane]]] = {}
    for line in lines:
        groups.setdefault((line.along_x, line.start + line.sign * line.length / 2 > 0), []).append((line.box(), line))
    return [(union(box for box, _ in group), group) for group in groups.values()]


def _distinct(angles: list[float]) -> list[float]:
    """Sorted, without those that are another one up to rounding, from 0 to a full turn."""
    kept = [0.0]
    for angle in sorted(angles):
        if angle - kept[-1] > DOUBT and TAU - angle > DOUBT:
            kept.append(angle)
    return [*kept, TAU]


def _passes(arc: CircularFastLane, angle: float) -> bool:
    return (arc.turn * (angle - arc.start)) % TAU < arc.turn * (arc.last - arc.start)
