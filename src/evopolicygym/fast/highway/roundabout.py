"""roundabout-v0, faster."""

from __future__ import annotations

from typing import Any

from highway_env.envs.common.action import DiscreteMetaAction, action_factory
from highway_env.envs.roundabout_env import RoundaboutEnv
from highway_env.road.road import Road
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import MDPVehicle

from evopolicygym.fast.highway.network import FastNetwork, quicken
from evopolicygym.fast.highway.observations import observation_of
from evopolicygym.fast.highway.traffic import RoadTraffic


class FastRoundabout(RoundaboutEnv):  # type: ignore[misc]
    """RoundaboutEnv; scenes that its configuration can make but that are not covered here run as stock."""

    def define_spaces(self) -> None:
        """AbstractEnv.define_spaces (highway_env/envs/common/abstract.py) with an observation that avoids pandas."""
        self.observation_type = observation_of(self, self.config["observation"])
        self.action_type = action_factory(self, self.config["action"])
        self.observation_space = self.observation_type.space()
        self.action_space = self.action_type.space()

    def _make_road(self) -> None:
        """RoundaboutEnv._make_road, with a network that finds the closest lane faster."""
        super()._make_road()
        quicken(self.road.network)

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
