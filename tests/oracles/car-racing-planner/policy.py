"""Car racing by planning: many controls are tried on a model of the car, along the road traced in the picture.

In each step, the plan of the last step is varied at random. All variants are driven with the simulator's equations
(car.py) for half a second along the middle line of the road (road.py). Their mean, weighted by how far each one gets
without leaving the road, is the new plan (model predictive path integral control).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from car import ZOOM_STEPS, CarTracker, Floats, advance
from road import RoadLine, wheels_on_road

HORIZON, SAMPLES, ROUNDS = 28, 256, 2
KNOT_DISTANCE = 6
"""Steps between the random changes, which are interpolated."""
STEERING_NOISE, PEDAL_NOISE = 0.10, 0.5
SECOND_ROUND_NOISE = 0.5
TEMPERATURE = 0.2
LINE_LENGTH = 100
FULL_BRAKE, FULL_STEERING = 0.85, 0.42
"""Stronger brakes lock the wheels; the wheels turn no further."""

SPEED_VALUE = 0.25
"""Worth of speed at the end of a plan, in units of distance."""
EDGE, EDGE_COST = 5.4, 0.6
"""Distance of the car from the middle line that costs, squared, in every step."""
OFF_ROAD, OFF_ROAD_COST = 6.8, 30.0
"""Distance at which wheels lose grip and tiles may be missed."""
TOP_SPEED, TOP_SPEED_COST = 97.0, 5.0
"""The simulator caps the speed of each body at 100, which makes the car skid when it turns."""
STEERING_COST, STEERING_CHANGE_COST = 2.0, 20.0


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        knots = np.arange(0, HORIZON + KNOT_DISTANCE, KNOT_DISTANCE)
        self._spread = np.maximum(0.0, 1.0 - np.abs(np.arange(HORIZON)[:, None] - knots) / KNOT_DISTANCE)
        self.reset(0)

    def reset(self, episode_index: int) -> None:
        self._random = np.random.default_rng(0)
        self._car = CarTracker()
        self._road = RoadLine()
        self._plan = np.zeros((2, HORIZON))  # steering and pedals (gas, or brake if negative) of the coming steps
        self._plan[1] = 0.6
        self._action = (0.0, 0.0, 0.0)

    def act(self, obs: Any) -> np.ndarray:
        self._car.update(obs, self._action)
        self._road.update(obs, self._car)
        line, directions, known = self._road.sampled(1.0, 45.0)
        line, directions = line[:LINE_LENGTH], directions[:LINE_LENGTH]
        if self._car.pictures > ZOOM_STEPS:
            self._car.wheels_on_road = wheels_on_road(self._car, line, directions)
        self._improve_plan(line, directions, known)
        steering, pedals = self._plan[:, 0]
        self._action = (float(steering), float(max(0.0, pedals)), float(FULL_BRAKE * max(0.0, -pedals)))
        self._plan = np.column_stack((self._plan[:, 1:], self._plan[:, -1]))
        return np.array(self._action, dtype=np.float32)

    def _improve_plan(self, line: Floats, directions: Floats, known: float) -> None:
        noise = np.array([STEERING_NOISE, PEDAL_NOISE])[:, None, None]
        for improvement in range(ROUNDS):
            changes = noise * self._random.standard_normal((2, self._spread.shape[1], SAMPLES))
            changes[:, :, 0] = 0.0
            plans = self._plan[:, :, None] + np.einsum("hn,cnk->chk", self._spread, changes)
            if improvement == 0:
                plans[1, :, 1:4] = (-1.0, 1.0, 0.0)
            np.clip(plans[0], -FULL_STEERING, FULL_STEERING, out=plans[0])
            np.clip(plans[1], -1.0, 1.0, out=plans[1])
            costs = self._costs(plans, line, directions, known)
            weights = np.exp((costs.min() - costs) / TEMPERATURE)
            self._plan = np.einsum("chk,k->ch", plans, weights / weights.sum())
            noise = noise * SECOND_ROUND_NOISE

    def _costs(self, plans: Floats, line: Floats, directions: Floats, known: float) -> Floats:
        """Drive all plans and return the cost of each, in units of distance."""
        steering, pedals = plans
        gas, brake = np.maximum(pedals, 0.0), FULL_BRAKE * np.maximum(-pedals, 0.0)
        cars = np.repeat(self._car.state, SAMPLES, axis=1)
        places = []
        top_speed = np.zeros(SAMPLES)
        for step in range(HORIZON):
            cars = advance(cars, steering[step], gas[step], brake[step])
            if step % 2:
                top_speed = np.maximum(top_speed, cars[3] ** 2 + cars[4] ** 2)
                places.append(cars[:2])
        points = np.array(places)  # step, x or y, sample
        x, y = points[:, 0].reshape(-1, 1), points[:, 1].reshape(-1, 1)
        nearest = ((x - line[:, 0]) ** 2 + (y - line[:, 1]) ** 2).argmin(axis=1).reshape(len(places), SAMPLES)
        away = points - np.moveaxis(line[nearest], 2, 1)
        along = np.moveaxis(directions[nearest], 2, 1)
        offset = np.abs(away[:, 0] * along[:, 1] - away[:, 1] * along[:, 0]) * (nearest < known)
        costs = 2.0 * EDGE_COST * (np.maximum(0.0, offset - EDGE) ** 2).sum(axis=0)
        costs += 2.0 * OFF_ROAD_COST * np.maximum(0.0, offset - OFF_ROAD).sum(axis=0)
        costs -= nearest[-1] + (away[-1] * along[-1]).sum(axis=0)
        costs -= SPEED_VALUE * (cars[3] * along[-1, 0] + cars[4] * along[-1, 1])
        costs += TOP_SPEED_COST * np.maximum(0.0, np.sqrt(top_speed) - TOP_SPEED)
        changes = np.diff(steering, axis=0, prepend=np.full((1, SAMPLES), self._action[0]))
        costs += STEERING_COST * (steering**2).sum(axis=0) + STEERING_CHANGE_COST * (changes**2).sum(axis=0)
        return costs
