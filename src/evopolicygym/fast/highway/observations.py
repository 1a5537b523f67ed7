"""The observations of highway-env without pandas."""

from __future__ import annotations

from collections import OrderedDict
from operator import itemgetter
from typing import Any, Final

import numpy as np
from highway_env.envs.common.observation import (
    KinematicObservation,
    KinematicsGoalObservation,
    observation_factory,
)

from evopolicygym.fast.highway.cars import Spot
from evopolicygym.fast.highway.exact import Pairs, clip, cos, sin
from evopolicygym.fast.highway.network import FastNetwork

KINEMATICS: Final = ["presence", "x", "y", "vx", "vy"]
GOAL: Final = ["x", "y", "vx", "vy", "cos_h", "sin_h"]


class FastKinematics(KinematicObservation):  # type: ignore[misc]
    """KinematicObservation (highway_env/envs/common/observation.py) of the default features, absolute and sorted."""

    def observe(self) -> Any:
        """One row per vehicle: the numbers of Vehicle.to_dict, KinematicObservation.normalize_obs and zeros below.

        pandas does the same elementwise operations in the same order, on columns of float64.
        """
        if not self._is_covered():
            return super().observe()
        rows = [self._row(vehicle) for vehicle in (self.observer_vehicle, *self._others())]
        rows += [[0.0] * len(KINEMATICS)] * (self.vehicles_count - len(rows))
        return np.array(rows, dtype=np.float32)

    def _is_covered(self) -> bool:
        road = self.env.road
        return bool(
            road
            and self.features_range
            and not road.objects
            and type(road.network) is FastNetwork
            and road.network.roads is not None
        )

    def _others(self) -> list[Any]:
        """Road.close_objects_to (highway_env/road/road.py) with RoadObject.lane_distance_to, each gap computed once."""
        ego, road, pairs = self.observer_vehicle, self.env.road, Pairs()
        spot, lane = Spot(ego), road.network.roads.lanes[ego.lane_index]
        along = lane.place(spot)[0]
        found = []
        for other in map(Spot, road.vehicles):
            distance = pairs.norm(other.x - spot.x, other.y - spot.y)
            if other.vehicle is not ego and distance < self.env.PERCEPTION_DISTANCE:
                gap = lane.place(other)[0] - along
                if self.see_behind or gap > -2 * ego.LENGTH:
                    found.append((abs(gap), other.vehicle))
        return [vehicle for _, vehicle in sorted(found, key=itemgetter(0))[: self.vehicles_count - 1]]

    def _row(self, vehicle: Any) -> list[float]:
        x, y = vehicle.position.tolist()
        heading, speed = float(vehicle.heading), vehicle.speed
        values = (1.0, x, y, speed * cos(heading), speed * sin(heading))
        return [self._scaled(name, value) for name, value in zip(KINEMATICS, values, strict=True)]

    def _scaled(self, name: str, value: float) -> float:
        """utils.lmap to [-1, 1], then clipped."""
        if name not in self.features_range:
            return value
        low, high = self.features_range[name]
        value = -1 + (value - low) * 2 / (high - low)
        return clip(value, -1.0, 1.0) if self.clip else value


class FastGoal(KinematicsGoalObservation):  # type: ignore[misc]
    """KinematicsGoalObservation (highway_env/envs/common/observation.py) of the default features."""

    def observe(self) -> Any:
        """The features of Vehicle.to_dict and, for the goal, RoadObject.to_dict, divided by the scales."""
        vehicle, goal = self.observer_vehicle, self.observer_vehicle.goal
        heading, speed = float(vehicle.heading), vehicle.speed
        c, s = cos(heading), sin(heading)
        features = np.array([*vehicle.position.tolist(), speed * c, speed * s, c, s])
        heading = float(goal.heading)
        wanted = np.array([*goal.position.tolist(), 0.0, 0.0, cos(heading), sin(heading)])
        return OrderedDict(
            [
                ("observation", features / self.scales),
                ("achieved_goal", features / self.scales),
                ("desired_goal", wanted / self.scales),
            ]
        )


def observation_of(env: Any, config: dict[str, Any]) -> Any:
    """highway-env's observation_factory, with the fast kind where the configuration is one that it covers."""
    stock = observation_factory(env, config)
    if type(stock) is KinematicsGoalObservation and stock.features == GOAL:
        stock.__class__ = FastGoal
    elif (
        type(stock) is KinematicObservation
        and (stock.features, stock.order, stock.absolute, stock.normalize) == (KINEMATICS, "sorted", True, True)
        and stock.vehicles_count > 1
    ):
        stock.__class__ = FastKinematics
    return stock
