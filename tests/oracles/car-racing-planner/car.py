"""Motion of the car: a copy of the simulator's equations, and an estimate of the state from pictures.

A state is an array of 12 rows: x, y and heading of the centre of mass, velocity in x and y, turning rate (all in a
fixed frame; headings and angles grow to the left, and heading 0 points along y), angle of the front wheels, throttle,
and the speed of the four wheels (front left, front right, rear left, rear right). Its columns are independent cars.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP = 0.02
MASS, INERTIA = 7.302, 19.19
MASS_CENTRE = -0.0805
"""Position of the centre of mass, ahead of the car's reference point."""
WHEEL_RADIUS, WHEEL_INERTIA = 0.54, 1.6
STIFFNESS, ROAD_GRIP, GRASS_GRIP = 82.0, 400.0, 240.0
WHEEL_X = np.array([[-1.1], [1.1], [-1.1], [1.1]])
WHEEL_Y = np.array([[1.6], [1.6], [-1.64], [-1.64]]) - MASS_CENTRE
MAX_SPEED = 100.0

COLUMN, ROW = 47.5, 71.5
"""Pixel of the car's reference point."""
VIEW_ROWS = 84
SCALE_X, SCALE_Y = 1.5552, 1.944
"""Pixels per unit once the zoom of the first second is over."""
ZOOM_STEPS = 50

VELOCITY_PRIOR, TURN_PRIOR = 6e4, 2e8
"""Trust in the predicted motion against the pictures, in squared brightness."""
PICTURE_GAIN = 0.15
"""Share of the motion seen in the pictures that corrects the estimate."""


def advance(cars: Floats, steering: Any, gas: Any, brake: Any, grip: Any = ROAD_GRIP) -> Floats:
    """Return the cars after one step; brakes below 0.9, where wheels are not locked."""
    x, y, heading, vx, vy, rate, angle, throttle = cars[:8]
    spin = cars[8:].copy()
    throttle = throttle + np.minimum(gas - throttle, 0.1)
    cos, sin = np.cos(heading), np.sin(heading)
    across = (cos * vx + sin * vy) - rate * WHEEL_Y
    along = (cos * vy - sin * vx) + rate * WHEEL_X
    cos_front, sin_front = np.cos(angle), np.sin(angle)
    front_across, front_along = across[:2], along[:2]
    across[:2], along[:2] = (
        cos_front * front_across + sin_front * front_along,
        cos_front * front_along - sin_front * front_across,
    )
    spin[2:] += 500.0 * throttle / (spin[2:] + 5.0)
    spin -= np.minimum(15.0 * brake, spin)
    push, side = spin * WHEEL_RADIUS - along, -across
    force = np.minimum(STIFFNESS, grip / np.maximum(np.sqrt(push * push + side * side), 1e-9))
    push *= force
    side *= force
    spin -= STEP * WHEEL_RADIUS / WHEEL_INERTIA * push
    np.maximum(spin, 0.0, out=spin)
    front_side, front_push = side[:2], push[:2]
    side[:2], push[:2] = (
        cos_front * front_side - sin_front * front_push,
        sin_front * front_side + cos_front * front_push,
    )
    total_side, total_push = side.sum(axis=0), push.sum(axis=0)
    torque = (WHEEL_X * push - WHEEL_Y * side).sum(axis=0)
    vx = vx + STEP / MASS * (cos * total_side - sin * total_push)
    vy = vy + STEP / MASS * (sin * total_side + cos * total_push)
    rate = rate + STEP / INERTIA * torque
    angle = np.clip(angle + np.clip(-steering - angle, -0.06, 0.06), -0.4, 0.4)
    capped = np.minimum(1.0, MAX_SPEED / np.maximum(np.sqrt(vx * vx + vy * vy), 1e-9))
    vx, vy = vx * capped, vy * capped
    moved = np.empty_like(cars)
    rows = (x + STEP * vx, y + STEP * vy, heading + STEP * rate, vx, vy, rate, angle, throttle)
    for i, row in enumerate(rows):
        moved[i] = row
    moved[8:] = spin
    return moved


def interpolate(picture: Floats, columns: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return brightness and its slopes along columns and rows between the pixels of a picture."""
    column, row = columns.astype(int), rows.astype(int)
    right, down = columns - column, rows - row
    a, b = picture[row, column], picture[row, column + 1]
    c, d = picture[row + 1, column], picture[row + 1, column + 1]
    value = (a * (1 - right) + b * right) * (1 - down) + (c * (1 - right) + d * right) * down
    return value, (b - a) * (1 - down) + (d - c) * down, (c - a) * (1 - right) + (d - b) * right


def covered(columns: Floats, rows: Floats) -> NDArray[np.bool_]:
    """Return which pixels may show the car itself."""
    return (np.abs(columns - COLUMN) <= 5) & (np.abs(rows - ROW) <= 9)


class CarTracker:
    """Estimate of the car's state: prediction by the equations, corrected by instruments and pictures."""

    def __init__(self) -> None:
        self.state = np.zeros((12, 1))
        self.pictures = 0
        self.wheels_on_road = np.ones(4, dtype=bool)
        self.green: Floats = np.zeros((VIEW_ROWS, 96))
        rows, columns = np.meshgrid(np.arange(1, 82, 2), np.arange(1, 95, 2), indexing="ij")
        seen = ~covered(columns, rows)
        self.rows, self.columns = rows[seen], columns[seen]
        self.right, self.ahead = (self.columns - COLUMN) / SCALE_X, (ROW - self.rows) / SCALE_Y

    def update(self, obs: NDArray[np.uint8], action: tuple[float, float, float]) -> None:
        """Follow one step with this action that led to this picture; the first picture has no step before it."""
        before = self.state[:3, 0].copy()
        if self.pictures:
            grip = np.where(self.wheels_on_road, ROAD_GRIP, GRASS_GRIP)[:, None]
            self.state = advance(self.state, *action, grip)
        self._read_instruments(obs[VIEW_ROWS:].astype(np.float64) / 255.0)
        if self.pictures >= ZOOM_STEPS:
            self._compare_pictures(obs, before)
        self.green = obs[:VIEW_ROWS, :, 1].astype(np.float64)
        self.pictures += 1

    def _read_instruments(self, strip: Floats) -> None:
        """Correct what differs from an instrument by more than the instrument's resolution."""
        state = self.state[:, 0]
        speed = max(0.0, 20.9 * strip[:, 13, 0].sum() - 3.5)
        estimate = math.hypot(state[3], state[4])
        if abs(speed - estimate) > 2.0 and estimate > 3.0:
            state[3:5] *= 1.0 + 0.5 * (speed - estimate) / estimate
        red = strip[4:7, :, 0].mean(axis=0)
        left, right = 10.5 * red[60:72].sum(), 10.5 * red[72:90].sum()
        rate = max(0.0, left - 0.5) / 20.0 if left > right else -max(0.0, right - 0.5) / 20.0
        error = rate - state[5]
        if abs(error) > 0.03:
            error -= math.copysign(0.03, error)
            state[5] += error
            state[2] += STEP * error
        green = strip[4:7, :, 1].mean(axis=0)
        angle = 0.042 * (green[36:48].sum() - green[48:60].sum())
        if abs(angle - state[6]) > 0.02:
            state[6] += 0.5 * (angle - state[6])
        spin = np.maximum(0.0, 42.0 * strip[:, [17, 20, 22, 25], 2].sum(axis=0) - 7.4)
        error = spin - state[8:]
        state[8:] += np.where(np.abs(error) > 5.0, 0.5 * error, 0.0)

    def _compare_pictures(self, obs: NDArray[np.uint8], before: Floats) -> None:
        """Correct position, velocity and heading by the motion (least squares) that turns the last picture into this.

        Without this, a skid that the equations get slightly wrong is noticed only when the car has left the road.
        """
        x, y, heading = self.state[:3, 0]
        cos, sin = math.cos(before[2]), math.sin(before[2])
        dx = x - before[0] + MASS_CENTRE * (math.sin(heading) - sin)
        dy = y - before[1] - MASS_CENTRE * (math.cos(heading) - cos)
        predicted = np.array([cos * dx + sin * dy, cos * dy - sin * dx, heading - before[2]])
        trust = np.array([VELOCITY_PRIOR, VELOCITY_PRIOR, TURN_PRIOR])
        brightness = obs[self.rows, self.columns, 1].astype(np.float64)
        motion = predicted.copy()
        for _ in range(2):
            turn_cos, turn_sin = math.cos(motion[2]), math.sin(motion[2])
            right = turn_cos * self.right - turn_sin * self.ahead
            ahead = turn_sin * self.right + turn_cos * self.ahead
            columns, rows = (right + motion[0]) * SCALE_X + COLUMN, ROW - (ahead + motion[1]) * SCALE_Y
            inside = (columns > 0) & (columns < 94.99) & (rows > 0) & (rows < 81.99) & ~covered(columns, rows)
            value, slope_x, slope_y = interpolate(self.green, columns[inside], rows[inside])
            slope_x, slope_y = slope_x * SCALE_X, -slope_y * SCALE_Y
            slopes = np.stack((slope_x, slope_y, slope_y * right[inside] - slope_x * ahead[inside]))
            error = np.clip(brightness[inside] - value, -60.0, 60.0)
            pull = slopes @ error - trust * (motion - predicted)
            motion = motion + np.linalg.solve(slopes @ slopes.T + np.diag(trust), pull)
        shift = PICTURE_GAIN * np.clip(motion[:2] - predicted[:2], -0.3, 0.3)
        shift = np.array([cos * shift[0] - sin * shift[1], sin * shift[0] + cos * shift[1]])
        self.state[:2, 0] += shift
        self.state[2, 0] += 0.5 * (motion[2] - predicted[2])
        self.state[3:5, 0] += shift / STEP

    def to_car(self, points: Floats) -> Floats:
        """Turn points of the fixed frame into units to the right of and ahead of the car."""
        x, y, heading = self.state[:3, 0]
        cos, sin = math.cos(heading), math.sin(heading)
        dx, dy = points[:, 0] - x, points[:, 1] - y
        return np.column_stack((cos * dx + sin * dy, cos * dy - sin * dx + MASS_CENTRE))

    def to_world(self, points: Floats) -> Floats:
        """Turn units to the right of and ahead of the car into points of the fixed frame."""
        x, y, heading = self.state[:3, 0]
        cos, sin = math.cos(heading), math.sin(heading)
        right, ahead = points[:, 0], points[:, 1] - MASS_CENTRE
        return np.column_stack((x + cos * right - sin * ahead, y + sin * right + cos * ahead))
