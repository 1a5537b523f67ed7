"""parking-v0 and roundabout-v0 of highway-env, fast: observations without pandas, vehicles as plain numbers."""

from __future__ import annotations

from collections import OrderedDict
from operator import itemgetter
from typing import Any, Final

import numpy as np
from highway_env.envs.common.action import ContinuousAction, DiscreteMetaAction, action_factory
from highway_env.envs.common.observation import (
    KinematicObservation,
    KinematicsGoalObservation,
    observation_factory,
)
from highway_env.envs.parking_env import ParkingEnv
from highway_env.envs.roundabout_env import RoundaboutEnv
from highway_env.road.road import Road
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import MDPVehicle
from highway_env.vehicle.kinematics import Vehicle
from highway_env.vehicle.objects import Landmark

from evopolicygym.fast.highway.arithmetic import Pairs, clip, cos, sin
from evopolicygym.fast.highway.cars import Body, Car, Spot, collide
from evopolicygym.fast.highway.lanes import FastNetwork, speed_up
from evopolicygym.fast.highway.traffic import RoadTraffic

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
        along = lane.local_coordinates(spot)[0]
        near = []
        for other in map(Spot, road.vehicles):
            distance = pairs.norm(other.x - spot.x, other.y - spot.y)
            if other.vehicle is not ego and distance < self.env.PERCEPTION_DISTANCE:
                gap = lane.local_coordinates(other)[0] - along
                if self.see_behind or gap > -2 * ego.LENGTH:
                    near.append((abs(gap), other.vehicle))
        return [vehicle for _, vehicle in sorted(near, key=itemgetter(0))[: self.vehicles_count - 1]]

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
    """Return what highway-env's observation_factory makes, as the fast kind if that covers the configuration."""
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


class FastParking(ParkingEnv):  # type: ignore[misc]
    """ParkingEnv, faster. Scenes of configurations that are not covered here run as stock."""

    def define_spaces(self) -> None:
        """AbstractEnv.define_spaces and ParkingEnv.define_spaces with observations that avoid pandas."""
        self.observation_type = observation_of(self, self.config["observation"])
        self.action_type = action_factory(self, self.config["action"])
        self.observation_space = self.observation_type.space()
        self.action_space = self.action_type.space()
        self.observation_type_parking = observation_of(self, self.PARKING_OBS["observation"])

    def _create_road(self, spots: int = 14) -> None:
        """ParkingEnv._create_road, with a network that finds the closest lane faster."""
        super()._create_road(spots)
        speed_up(self.road.network)

    def step(self, action: Any) -> Any:
        """AbstractEnv.step with ParkingEnv._reward, _is_terminated and _info.

        All three take the same two vectors and compute the same reward from them: here it is computed once.
        """
        if type(self.observation_type) is not FastGoal or len(self.controlled_vehicles) != 1:
            return super().step(action)
        if self.observation_type.scales.tolist() != self.observation_type_parking.scales.tolist():
            return super().step(action)
        self.time += 1 / self.config["policy_frequency"]
        self._simulate(action)
        observation = self.observation_type.observe()
        closeness = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})
        success = closeness > -self.config["success_goal_reward"]
        vehicle = self.vehicle
        reward = 0 + closeness + self.config["collision_reward"] * sum([vehicle.crashed])
        info = {"speed": vehicle.speed, "crashed": vehicle.crashed, "action": action, "is_success": success}
        if self.render_mode == "human":
            self.render()
        return observation, reward, bool(vehicle.crashed or success), self._is_truncated(), info

    def _simulate(self, action: Any = None) -> None:
        """AbstractEnv._simulate: the sub-steps of one action. The car is plain numbers in between.

        Its lane (Vehicle.on_state_update) has no influence on anything here, so only the last one is looked up. A
        landmark is not solid: all that RoadObject.handle_collisions can do to it is to mark it as hit, once.
        """
        if not self._is_covered():
            super()._simulate(action)
            return
        config, vehicle = self.config, self.vehicle
        frames = int(config["simulation_frequency"] // config["policy_frequency"])
        dt = 1 / config["simulation_frequency"]
        objects = [Body(item) for item in self.road.objects if not (type(item) is Landmark and item.hit)]
        car = Car(vehicle)
        for frame in range(frames):
            if action is not None and not config["manual_control"] and self.steps % frames == 0:
                self.action_type.act(action)
                car.read_action()
            car.advance(dt)
            collide(car, objects, dt)
            self.steps += 1
            if frame < frames - 1 and self.viewer is not None:
                car.store()
                self._automatic_rendering()
        car.store()
        vehicle.on_state_update()
        self.enable_auto_render = False

    def _is_covered(self) -> bool:
        road = self.road
        return (
            type(road) is Road
            and type(road.network) is FastNetwork
            and not road.record_history
            and type(self.action_type) is ContinuousAction
            and self.action_type.controlled_vehicle is self.vehicle
            and type(self.vehicle) is Vehicle
            and len(road.vehicles) == 1
            and road.vehicles[0] is self.vehicle
        )


class FastRoundabout(RoundaboutEnv):  # type: ignore[misc]
    """RoundaboutEnv, faster. Scenes of configurations that are not covered here run as stock."""

    def define_spaces(self) -> None:
        """AbstractEnv.define_spaces (highway_env/envs/common/abstract.py) with an observation that avoids pandas."""
        self.observation_type = observation_of(self, self.config["observation"])
        self.action_type = action_factory(self, self.config["action"])
        self.observation_space = self.observation_type.space()
        self.action_space = self.action_type.space()

    def _make_road(self) -> None:
        """RoundaboutEnv._make_road, with a network that finds the closest lane faster."""
        super()._make_road()
        speed_up(self.road.network)

    def _simulate(self, action: Any = None) -> None:
        """AbstractEnv._simulate: the sub-steps of one action. The vehicles are plain numbers in between."""
        if not self._is_covered():
            super()._simulate(action)
            return
        config = self.config
        frames = int(config["simulation_frequency"] // config["policy_frequency"])
        traffic = RoadTraffic(self.road)
        ego = next(driver for driver in traffic.drivers if driver.vehicle is self.vehicle)
        for frame in range(frames):
            if action is not None and not config["manual_control"] and self.steps % frames == 0:
                traffic.command(ego, self.action_type.actions[int(action)])
            traffic.act()
            traffic.step(1 / config["simulation_frequency"])
            self.steps += 1
            if frame < frames - 1 and self.viewer is not None:
                traffic.store()
                self._automatic_rendering()
        traffic.store()
        self.enable_auto_render = False

    def _is_covered(self) -> bool:
        road, vehicles = self.road, self.road.vehicles
        return (
            type(road) is Road
            and type(road.network) is FastNetwork
            and road.network.roads is not None
            and not (road.objects or road.record_history or road.neighbour_vehicles_connected_lanes)
            and type(self.action_type) is DiscreteMetaAction
            and self.action_type.controlled_vehicle is self.vehicle
            and type(self.vehicle) is MDPVehicle
            and all(type(vehicle) in (MDPVehicle, IDMVehicle) for vehicle in vehicles)
            and any(vehicle is self.vehicle for vehicle in vehicles)
        )

    def _rewards(self, action: int) -> dict[str, Any]:
        """RoundaboutEnv._rewards without the default speed index that MDPVehicle.get_speed_index computes unused."""
        if type(self.vehicle) is not MDPVehicle:
            return super()._rewards(action)  # type: ignore[no-any-return]
        return {
            "collision_reward": self.vehicle.crashed,
            "high_speed_reward": self.vehicle.speed_index / (MDPVehicle.DEFAULT_TARGET_SPEEDS.size - 1),
            "lane_change_reward": action in [0, 2],
            "on_road_reward": self.vehicle.on_road,
        }
