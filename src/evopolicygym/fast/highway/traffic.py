"""Drivers of the roundabout: lane following, the IDM car-following model and MOBIL lane changes, as plain numbers."""

from __future__ import annotations

from typing import Any, Final

from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import ControlledVehicle

from evopolicygym.fast.highway.arithmetic import (
    PI,
    TAU,
    Pairs,
    arcsin,
    arctan,
    clip,
    not_zero,
    power,
    sqrt,
    square,
    tan,
)
from evopolicygym.fast.highway.cars import Car, collide
from evopolicygym.fast.highway.lanes import FastLane, RoadIndex

STEERING: Final = float(ControlledVehicle.MAX_STEERING_ANGLE)
PURSUIT: Final = float(ControlledVehicle.TAU_PURSUIT)
KP_LATERAL: Final = float(ControlledVehicle.KP_LATERAL)
KP_HEADING: Final = float(ControlledVehicle.KP_HEADING)
KP_SPEED: Final = float(ControlledVehicle.KP_A)
DISTANCE: Final = float(IDMVehicle.DISTANCE_WANTED)
TIME: Final = float(IDMVehicle.TIME_WANTED)
COMFORT: Final = float(IDMVehicle.COMFORT_ACC_MAX)
HARDEST: Final = float(IDMVehicle.ACC_MAX)
BRAKING: Final = 2 * sqrt(-COMFORT * float(IDMVehicle.COMFORT_ACC_MIN))


class Driver(Car):
    """A ControlledVehicle: on ``lane``, following ``target``.

    ``along`` and ``aside`` are its coordinates on its own lane, ``wanted`` is its target speed.
    """

    __slots__ = ("along", "aside", "autonomous", "exponent", "lane", "target", "timer", "wanted")

    def __init__(self, vehicle: Any, roads: RoadIndex) -> None:
        super().__init__(vehicle)
        self.autonomous = type(vehicle) is IDMVehicle
        self.lane = roads.lanes[vehicle.lane_index]
        self.target = roads.lanes[vehicle.target_lane_index]
        self.timer = float(vehicle.timer) if self.autonomous else 0.0
        self.exponent = float(vehicle.DELTA) if self.autonomous else 0.0
        self.wanted = float(vehicle.target_speed)
        self.along, self.aside = self.lane.local_coordinates(self)

    def store(self) -> None:
        super().store()
        vehicle = self.vehicle
        vehicle.lane_index, vehicle.lane = self.lane.index, self.lane.stock
        vehicle.target_lane_index = self.target.index
        if self.autonomous:
            vehicle.timer = self.timer


class RoadTraffic:
    """All vehicles of a Road without other objects, for the sub-steps of one step."""

    def __init__(self, road: Any) -> None:
        self.network = road.network
        self.roads: RoadIndex = road.network.roads
        self.pairs = Pairs()
        self.drivers = [Driver(vehicle, self.roads) for vehicle in road.vehicles]

    def store(self) -> None:
        for driver in self.drivers:
            driver.store()

    def command(self, driver: Driver, action: str) -> None:
        """MDPVehicle.act with a decision of the agent (highway_env/vehicle/controller.py).

        Without the steering and acceleration that it computes: Road.act computes them again right after.
        """
        vehicle = driver.vehicle
        if action in ("FASTER", "SLOWER"):
            index = vehicle.speed_to_index(driver.speed) + (1 if action == "FASTER" else -1)
            vehicle.speed_index = int(clip(index, 0, vehicle.target_speeds.size - 1))
            vehicle.target_speed = vehicle.index_to_speed(vehicle.speed_index)
            driver.wanted = float(vehicle.target_speed)
        self.follow_road(driver)
        if action in ("LANE_LEFT", "LANE_RIGHT"):
            _from, _to, lane = driver.target.index
            last = len(self.network.graph[_from][_to]) - 1
            side = self.roads.lanes[_from, _to, min(max(lane + (1 if action == "LANE_RIGHT" else -1), 0), last)]
            if side.reachable(driver):
                driver.target = side

    def act(self) -> None:
        """Road.act (highway_env/road/road.py) with ControlledVehicle.act and IDMVehicle.act."""
        for driver in self.drivers:
            if not driver.autonomous:
                self.follow_road(driver)
                self.steer(driver)
                driver.acceleration = KP_SPEED * (driver.wanted - driver.speed)
            elif not driver.vehicle.crashed:
                self.follow_road(driver)
                if driver.vehicle.enable_lane_change:
                    self.consider_lanes(driver)
                self.steer(driver)
                self.follow_traffic(driver)

    def step(self, dt: float) -> None:
        """Road.step with IDMVehicle.step and Vehicle.on_state_update."""
        for driver in self.drivers:
            driver.timer += dt
            driver.advance(dt)
            lane = self.roads.closest(driver.x, driver.y, driver.heading, driver.lane)
            if lane is None:
                driver.store()
                vehicle = driver.vehicle
                lane = self.roads.lanes[self.network.get_closest_lane_index(vehicle.position, vehicle.heading)]
            driver.lane = lane
            driver.along, driver.aside = lane.local_coordinates(driver)
        for i, driver in enumerate(self.drivers):
            collide(driver, self.drivers[i + 1 :], dt)

    def follow_road(self, driver: Driver) -> None:
        """ControlledVehicle.follow_road (highway_env/vehicle/controller.py)."""
        target = driver.target
        along = driver.along if target is driver.lane else target.local_coordinates(driver)[0]
        if along > target.end:
            driver.target = self.roads.lanes[self.next_lane(driver)]

    def next_lane(self, driver: Driver) -> Any:
        """RoadNetwork.next_lane (highway_env/road/road.py) at the end of the target lane.

        Where the route names the next road and that has as many lanes, or one, the geometry that the stock method
        computes does not influence the result. Otherwise the stock method is called.
        """
        index, route = driver.target.index, driver.vehicle.route
        _from, _to, lane = index
        passed = 1 if route and route[0][:2] == index[:2] else 0
        if route and len(route) > passed and route[passed][0] == _to:
            _, next_to, next_lane = route[passed]
            count = len(self.network.graph[_to][next_to])
            if count == len(self.network.graph[_from][_to]):
                del route[:passed]
                return _to, next_to, lane if next_lane is None else next_lane
            if count == 1:
                del route[:passed]
                return _to, next_to, 0
        driver.store()
        return self.network.next_lane(index, route=route, position=driver.vehicle.position)

    def steer(self, driver: Driver) -> None:
        """ControlledVehicle.steering_control and the clipping after it: the same operations in the same order."""
        lane = driver.target
        along, aside = (driver.along, driver.aside) if lane is driver.lane else lane.local_coordinates(driver)
        ahead = lane.heading_at(along + driver.speed * PURSUIT)
        speed = not_zero(driver.speed)
        sideways = -KP_LATERAL * aside / speed
        towards = float(arcsin(-1.0 if sideways < -1.0 else min(sideways, 1.0)))
        heading = ahead + (-PI / 4 if towards < -PI / 4 else min(towards, PI / 4))
        rate = KP_HEADING * ((heading - driver.heading + PI) % TAU - PI)
        slip = driver.half_length / speed * rate
        steering = float(arctan(2 * tan(arcsin(-1.0 if slip < -1.0 else min(slip, 1.0)))))
        driver.steering = -STEERING if steering < -STEERING else min(steering, STEERING)

    def follow_traffic(self, driver: Driver) -> None:
        """The longitudinal half of IDMVehicle.act (highway_env/vehicle/behavior.py)."""
        front, _ = self.neighbours(driver, driver.lane)
        acceleration = self.idm(driver, driver, front)
        if driver.lane is not driver.target:
            front, _ = self.neighbours(driver, driver.target)
            acceleration = min(acceleration, self.idm(driver, driver, front))
        driver.acceleration = clip(acceleration, -HARDEST, HARDEST)

    def neighbours(self, driver: Driver, lane: FastLane) -> tuple[Driver | None, Driver | None]:
        """Road.neighbour_vehicles (highway_env/road/road.py) without connected lanes: the next in front and behind."""
        own = driver.along if lane is driver.lane else lane.local_coordinates(driver)[0]
        front: Driver | None = None
        rear: Driver | None = None
        front_at = rear_at = 0.0
        for other in self.drivers:
            if other is driver:
                continue
            along = lane.holds(other)
            if along is None:
                continue
            if own <= along and (front is None or along <= front_at):
                front, front_at = other, along
            if along < own and (rear is None or along > rear_at):
                rear, rear_at = other, along
        return front, rear

    def idm(self, judge: Driver, driver: Driver, front: Driver | None) -> float:
        """IDMVehicle.acceleration of ``driver``, with the parameters of ``judge``."""
        wanted = not_zero(clip(driver.wanted, 0.0, driver.lane.speed_limit))
        acceleration = COMFORT * (1 - float(power(max(driver.speed, 0.0) / wanted, judge.exponent)))
        if front is not None:
            acceleration -= COMFORT * square(self.desired_gap(driver, front) / not_zero(self.gap(driver, front)))
        return acceleration

    def gap(self, driver: Driver, front: Driver) -> float:
        """RoadObject.lane_distance_to (highway_env/vehicle/objects.py)."""
        lane = driver.lane
        along = front.along if lane is front.lane else lane.local_coordinates(front)[0]
        return along - driver.along

    def desired_gap(self, driver: Driver, front: Driver) -> float:
        """IDMVehicle.desired_gap."""
        speed, c, s = driver.speed, driver.cos, driver.sin
        approach = self.pairs.dot(speed * c - front.speed * front.cos, speed * s - front.speed * front.sin, c, s)
        return float(DISTANCE + speed * TIME + speed * approach / BRAKING)

    def consider_lanes(self, driver: Driver) -> None:
        """IDMVehicle.change_lane_policy."""
        if driver.lane is not driver.target:
            if driver.lane.index[:2] == driver.target.index[:2] and self.cut_off(driver):
                driver.target = driver.lane
            return
        if not driver.timer > driver.vehicle.LANE_CHANGE_DELAY:
            return
        driver.timer = 0.0
        for index in self.network.side_lanes(driver.lane.index):
            lane = self.roads.lanes[index]
            if lane.reachable(driver) and not abs(driver.speed) < 1 and self.mobil(driver, lane):
                driver.target = lane

    def cut_off(self, driver: Driver) -> bool:
        """Whether another vehicle, close ahead, is changing to the same lane."""
        return any(
            0 < self.gap(driver, other) < self.desired_gap(driver, other)
            for other in self.drivers
            if other is not driver and other.lane is not driver.target and other.target is driver.target
        )

    def mobil(self, driver: Driver, lane: FastLane) -> bool:
        """IDMVehicle.mobil. Its POLITENESS is zero: what it multiplies (finite numbers) is left out."""
        vehicle = driver.vehicle
        preceding, following = self.neighbours(driver, lane)
        if following is not None and self.idm(driver, following, driver) < -vehicle.LANE_CHANGE_MAX_BRAKING_IMPOSED:
            return False
        expected = self.idm(driver, driver, preceding)
        if vehicle.route and vehicle.route[0][2] is not None:
            target = driver.target.index[2]
            if _sign(lane.index[2] - target) != _sign(vehicle.route[0][2] - target):
                return False
            return not expected < -vehicle.LANE_CHANGE_MAX_BRAKING_IMPOSED
        front, _ = self.neighbours(driver, driver.lane)
        return not expected - self.idm(driver, driver, front) < vehicle.LANE_CHANGE_MIN_ACC_GAIN


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)
