"""A vehicle of highway-env as plain numbers: its motion, and whether it can touch another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from evopolicygym.fast.highway.arithmetic import arctan, cos, sin, tan

CLEARANCE: Final = 1e-6  # metres, far above rounding


class Spot:
    """The position of one RoadObject; a circular lane adds the angle and radius about its centre (lanes.py)."""

    __slots__ = ("angle", "radius", "vehicle", "x", "y")
    angle: float | None

    def __init__(self, vehicle: Any) -> None:
        self.vehicle = vehicle
        self.x, self.y = vehicle.position.tolist()
        self.angle, self.radius = None, 0.0


class Body(Spot):
    """A RoadObject and how it moves, while a step is simulated."""

    __slots__ = ("cos", "diagonal", "half_length", "half_width", "heading", "sin", "speed")

    def __init__(self, vehicle: Any) -> None:
        super().__init__(vehicle)
        self.heading = float(vehicle.heading)
        self.speed = vehicle.speed
        self.half_length, self.half_width = vehicle.LENGTH / 2, vehicle.WIDTH / 2
        self.diagonal = float(vehicle.diagonal)
        self.turn()

    def turn(self) -> None:
        """RoadObject.direction (highway_env/vehicle/objects.py)."""
        self.cos, self.sin = cos(self.heading), sin(self.heading)

    def store(self) -> None:
        """Write changes back to the object. Only cars change."""

    def clear_of(self, other: Body, dt: float) -> bool:
        """Return True if utils.are_polygons_intersecting (highway_env/utils.py) certainly finds nothing.

        It projects both rectangles on the normals of their sides, and finds neither contact nor coming contact if on
        some normal they are apart and stay so while the first one moves on. This is the same test, with a clearance
        that rounding cannot fake.
        """
        dx, dy = other.x - self.x, other.y - self.y
        vx = (self.speed * self.cos - other.speed * other.cos) * dt
        vy = (self.speed * self.sin - other.speed * other.sin) * dt
        along = abs(self.cos * other.cos + self.sin * other.sin)
        across = abs(self.cos * other.sin - self.sin * other.cos)
        for a, b in ((self, other), (other, self)):
            c, s = a.cos, a.sin
            extent = a.half_length + b.half_length * along + b.half_width * across
            if abs(dx * c + dy * s) - abs(vx * c + vy * s) - extent > CLEARANCE:
                return True
            extent = a.half_width + b.half_length * across + b.half_width * along
            if abs(dy * c - dx * s) - abs(vy * c - vx * s) - extent > CLEARANCE:
                return True
        return False


class Car(Body):
    """A vehicle that moves; ``store`` writes its numbers back to it.

    ``crashed`` and ``impact`` stay with the vehicle, because highway-env's own collision code sets them there.
    """

    __slots__ = ("acceleration", "steering")

    def __init__(self, vehicle: Any) -> None:
        super().__init__(vehicle)
        self.read_action()

    def read_action(self) -> None:
        """Take over the vehicle's action."""
        self.steering = float(self.vehicle.action["steering"])
        self.acceleration = float(self.vehicle.action["acceleration"])

    def advance(self, dt: float) -> None:
        """Vehicle.step without on_state_update, and Vehicle.clip_actions (highway_env/vehicle/kinematics.py).

        The same operations on each coordinate in the same order, on Python floats.
        """
        vehicle, speed = self.vehicle, self.speed
        if vehicle.crashed:
            self.steering, self.acceleration = 0.0, -1.0 * speed
        if speed > vehicle.MAX_SPEED:
            self.acceleration = min(self.acceleration, 1.0 * (vehicle.MAX_SPEED - speed))
        elif speed < vehicle.MIN_SPEED:
            self.acceleration = max(self.acceleration, 1.0 * (vehicle.MIN_SPEED - speed))
        slip = float(arctan(0.5 * tan(self.steering)))
        course = self.heading + slip
        self.x += speed * cos(course) * dt
        self.y += speed * sin(course) * dt
        if vehicle.impact is not None:
            self.x += float(vehicle.impact[0])
            self.y += float(vehicle.impact[1])
            vehicle.crashed = True
            vehicle.impact = None
        self.heading += speed * sin(slip) / self.half_length * dt
        self.speed = speed + self.acceleration * dt
        self.angle = None
        self.turn()

    def store(self) -> None:
        """Write the numbers back to the object, with the types that they have after a stock step."""
        vehicle = self.vehicle
        vehicle.position[0], vehicle.position[1] = self.x, self.y
        vehicle.heading = np.float64(self.heading)
        vehicle.speed = self.speed
        vehicle.action = {"steering": self.steering, "acceleration": self.acceleration}


def collide(car: Car, others: Iterable[Body], dt: float) -> None:
    """Call RoadObject.handle_collisions for each of the others in turn, if it could have an effect.

    It has none if the circles that it compares first are apart, up to rounding, or if ``Body.clear_of`` is True.
    """
    x, y, reach = car.x, car.y, car.diagonal / 2 + abs(car.speed) * dt + CLEARANCE
    for other in others:
        dx, dy, distance = other.x - x, other.y - y, reach + other.diagonal / 2
        if not (dx * dx + dy * dy > distance * distance or car.clear_of(other, dt)):
            car.store()
            other.store()
            car.vehicle.handle_collisions(other.vehicle, dt)
