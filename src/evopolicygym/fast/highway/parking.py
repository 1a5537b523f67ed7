"""parking-v0, faster."""

from __future__ import annotations

from typing import Any

from highway_env.envs.common.action import ContinuousAction, action_factory
from highway_env.envs.parking_env import ParkingEnv
from highway_env.road.road import Road
from highway_env.vehicle.kinematics import Vehicle
from highway_env.vehicle.objects import Landmark

from evopolicygym.fast.highway.cars import Body, Car, collide
from evopolicygym.fast.highway.network import FastNetwork, quicken
from evopolicygym.fast.highway.observations import FastGoal, observation_of


class FastParking(ParkingEnv):  # type: ignore[misc]
    """ParkingEnv; scenes that its configuration can make but that are not covered here run as stock."""

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
        quicken(self.road.network)

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
        objects = [Body(thing) for thing in self.road.objects if not (type(thing) is Landmark and thing.hit)]
        car = Car(vehicle)
        for frame in range(frames):
            if action is not None and not config["manual_control"] and self.steps % frames == 0:
                self.action_type.act(action)
                car.obey()
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
