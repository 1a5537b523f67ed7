"""Roundabout by looking ahead with a simple traffic model.

The car's own way (entry, outer ring, north exit) is known as a line, and its speed follows the
chosen speed level with a short delay. The other cars are assumed to keep their speed: round the
ring, along the east entry, or straight on when they leave. All sequences of FASTER, IDLE and
SLOWER over the next steps are rolled out; the best sum of speed reward less the predicted
closeness to other cars wins, and its first action is taken.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

IDLE, FASTER, SLOWER = 1, 3, 4
RING = 24.0
LEVEL = 8.0
"""Speed (m/s) between two speed levels; there are three levels, from standstill up."""
DELAY = 0.57
"""Time constant of the speed control (s)."""
DT = 0.2
TICKS = 5
DECISIONS, HORIZON = 4, 7
PLANS = np.array(
    [
        (*plan, *([FASTER] * (HORIZON - DECISIONS)))
        for plan in itertools.product((FASTER, IDLE, SLOWER), repeat=DECISIONS)
    ]
)
TIMES = DT * (1 + np.arange(HORIZON * TICKS))
HIT_LENGTH, HIT_WIDTH, HIT_COST = 4.957, 2.063, 8.699
NEAR_LENGTH, NEAR_WIDTH, NEAR_COST = 7.862, 2.28, 0.944
WEIGHTS, SLOW_WEIGHT = (0.93, 0.986, 0.856), 0.456
"""Weights of leaving east, leaving north, staying in the ring, and of slowing down."""
TRUST = 5.587
"""Seconds after which predictions count only a third."""


def own_way() -> np.ndarray:
    """Points of the way from the south entry to the north exit."""
    entry = np.arange(0.0, 17.0, 0.5)
    bow = 7.0 + 5.0 * np.sin(2.0 * np.pi / 85.0 * entry - 0.5 * np.pi)
    turn = np.radians(np.arange(66.0, -67.0, -1.0))
    south = np.stack([np.concatenate([[2.0], bow]), np.concatenate([[150.0], 42.5 - entry])], axis=1)
    ring = RING * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    corners = np.concatenate([south, ring, south[::-1] * [1.0, -1.0]])
    return spread(corners)


def spread(corners: np.ndarray) -> np.ndarray:
    """Points each half metre along a line."""
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    marks = np.arange(0.0, lengths[-1], 0.5)
    return np.stack([np.interp(marks, lengths, corners[:, axis]) for axis in (0, 1)], axis=1)


WAY = own_way()
WAY_DIRECTION = np.gradient(WAY, 0.5, axis=0)
EAST_WAY = np.stack([WAY[:, 1], -WAY[:, 0]], axis=1)


def along(way: np.ndarray, metres: np.ndarray) -> np.ndarray:
    return way[np.clip(np.rint(2.0 * metres).astype(int), 0, len(way) - 1)]


def ring_way(radius: float, angle: float, leave: int) -> np.ndarray:
    """Way round the ring from an angle, leaving at the east (0) or north (1) exit or never (2)."""
    last = (36.0, -54.0, -500.0)[leave]
    arc = np.radians(np.arange(np.degrees(angle), last, -0.5))
    corners = radius * np.stack([np.cos(arc), np.sin(arc)], axis=1)
    north = WAY[(WAY[:, 1] < -23.0)]
    if leave < 2 and len(corners):
        corners = np.concatenate([corners, north if leave else np.stack([-north[:, 1], north[:, 0]], axis=1)])
    return spread(corners) if len(corners) else corners


def foresee(place: np.ndarray, velocity: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """What another car may do: weights and positions at TIMES."""
    clipped = bool(np.any(np.abs(velocity) > 14.9))
    speed = max(float(np.hypot(*velocity)), 16.0 if clipped else 0.0)
    slower = speed * (0.6 * TIMES + 0.4 * 1.5 * (1.0 - np.exp(-TIMES / 1.5)))
    radius = float(np.hypot(*place))
    if radius < 28.0:
        tangent = np.array([place[1], -place[0]]) / radius
        if float(velocity @ place) / radius < 0.35 * max(speed, 1.0) and float(velocity @ tangent) > 0.0:
            angle = float(np.arctan2(place[1], place[0])) % (2.0 * np.pi)
            angle -= 2.0 * np.pi * (angle > np.radians(240.0))
            ways = [ring_way(radius, angle, leave) for leave in range(3)]
            return [(WEIGHTS[leave], along(way, speed * TIMES)) for leave, way in enumerate(ways) if len(way)] + [
                (SLOW_WEIGHT, along(ways[2], slower))
            ]
    gaps = np.hypot(*(EAST_WAY - place).T)
    nearest = int(np.argmin(gaps))
    if gaps[nearest] < 2.0 and velocity[0] < 0.0 and place[0] > 20.0:
        start = 0.5 * nearest
        return [(1.0, along(EAST_WAY, start + speed * TIMES)), (SLOW_WEIGHT, along(EAST_WAY, start + slower))]
    return [(1.0, place + velocity * TIMES[:, None]), (SLOW_WEIGHT, place + velocity / speed * slower[:, None])]


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._level = 1

    def reset(self, episode_index: int) -> None:
        self._level = 1

    def act(self, obs: Any) -> int:
        cars = np.asarray(obs, dtype=float) * [1.0, 100.0, 100.0, 15.0, 15.0]
        start = 0.5 * int(np.argmin(np.hypot(*(WAY - cars[0, 1:3]).T)))
        speed = float(np.hypot(cars[0, 3], cars[0, 4]))
        metres, levels = self._drive(start, speed)
        mine = along(WAY, metres)
        ahead = along(WAY_DIRECTION, metres)
        ahead /= np.linalg.norm(ahead, axis=2, keepdims=True)
        value = levels.sum(axis=1) / 12.0
        for car in cars[1:]:
            if car[0] < 0.5:
                continue
            threat = np.zeros(len(PLANS))
            for weight, places in foresee(car[1:3], car[3:5]):
                threat = np.maximum(threat, weight * self._risk(places[None] - mine, ahead))
            value = value - threat
        best = int(np.argmax(value))
        self._level = int(levels[best, 0])
        return int(PLANS[best, 0])

    @staticmethod
    def _risk(gap: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """Greatest danger over time of every plan, from the way to the other car."""
        lengthwise = np.abs((gap * ahead).sum(axis=2))
        sideways = np.abs(gap[..., 0] * ahead[..., 1] - gap[..., 1] * ahead[..., 0])
        hit = (lengthwise < HIT_LENGTH) & (sideways < HIT_WIDTH)
        near = (lengthwise < NEAR_LENGTH) & (sideways < NEAR_WIDTH)
        risk = np.maximum(HIT_COST * hit, NEAR_COST * near) * np.exp(-TIMES / TRUST)
        return risk.max(axis=1)

    def _drive(self, start: float, speed: float) -> tuple[np.ndarray, np.ndarray]:
        """Metres driven at every tick and speed levels at every step, for all plans."""
        speeds = np.full(len(PLANS), speed)
        place = np.full(len(PLANS), start)
        level = np.full(len(PLANS), float(self._level))
        metres = np.empty((len(PLANS), HORIZON * TICKS))
        levels = np.empty(PLANS.shape)
        for step in range(HORIZON):
            shift = (PLANS[:, step] == FASTER).astype(float) - (PLANS[:, step] == SLOWER)
            level = np.clip(np.where(shift == 0.0, level, np.rint(speeds / LEVEL) + shift), 0.0, 2.0)
            levels[:, step] = level
            for tick in range(TICKS):
                speeds = speeds + (LEVEL * level - speeds) * (1.0 - np.exp(-DT / DELAY))
                place = place + speeds * DT
                metres[:, step * TICKS + tick] = place
        return metres, levels
