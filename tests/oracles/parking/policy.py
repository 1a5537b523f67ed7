"""Parking by planning once with a bicycle model.

The car moves as a kinematic bicycle, which the first call of act() rolls out for thousands of
candidate drives at once (throttle and steering held piecewise constant). Several small evolution
strategies with a fixed seed keep the drives with the least summed distance cost and refine them by
shrinking random changes; the best of all are refined once more with shorter holds, and the best
drive is replayed. The goal counts as reached at any speed, so good drives swing into the bay under
full throttle. A drive that ran out is replanned.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

KNOTS, HOLDS = 9, (4, 2, 1)
"""A drive has KNOTS pairs of throttle and steering, each held for HOLDS[0] steps; they are halved to refine it."""
SUBSTEPS, DT = 3, 1.0 / 15.0
FULL_THROTTLE, FULL_STEERING = 5.0, math.pi / 4.0
HALF_LENGTH, HALF_WIDTH = 2.5, 1.0
WALL_X, WALL_Y = 34.5 - 0.3, 20.5 - 0.3
"""Inner faces of the walls less a safety margin (m)."""
SUCCESS = 0.12 - 0.002
CRASH_COST = 30.0
ISLANDS, STARTS, PARENTS, CHILDREN = 8, 6000, 40, 30
SPREADS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05)
FINE_SPREADS = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03)


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._drive: list[np.ndarray] = []

    def reset(self, episode_index: int) -> None:
        self._drive = []

    def act(self, obs: Any) -> np.ndarray:
        if not self._drive:
            state = np.asarray(obs["observation"], dtype=float)
            goal = np.asarray(obs["desired_goal"], dtype=float)
            self._drive = list(plan(state, goal))
        return self._drive.pop(0).astype(np.float32)


def plan(state: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Best drive found from the state, as an array of (throttle, steering) for every step."""
    rng = np.random.default_rng(0)
    drives, costs = [], []
    for _ in range(ISLANDS):
        island, island_costs = improve(first_drives(rng), state, goal, HOLDS[0], SPREADS, rng)
        drives.append(island)
        costs.append(island_costs)
    best = np.concatenate(drives)[np.argsort(np.concatenate(costs), kind="stable")[:PARENTS]]
    for hold in HOLDS[1:]:
        best, _ = improve(np.repeat(best, 2, axis=1), state, goal, hold, FINE_SPREADS, rng)
    return best[0]


def first_drives(rng: np.random.Generator) -> np.ndarray:
    """Random drives that change between full throttle and full reverse at most once."""
    drives = np.empty((STARTS, KNOTS, 2))
    first, second = rng.choice([-1.0, 1.0], size=(2, STARTS, 1))
    switch = rng.integers(0, KNOTS, size=(STARTS, 1))
    drives[:, :, 0] = np.where(np.arange(KNOTS) < switch, first, second)
    drives[:, :, 1] = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(STARTS, KNOTS))
    return drives


def improve(
    drives: np.ndarray,
    state: np.ndarray,
    goal: np.ndarray,
    hold: int,
    spreads: tuple[float, ...],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The best drives after some generations, and their costs."""
    costs = evaluate(drives, state, goal, hold)
    for spread in spreads:
        best = np.argsort(costs, kind="stable")[:PARENTS]
        parents, parent_costs = drives[best], costs[best]
        children = np.repeat(parents, CHILDREN, axis=0)
        changes = rng.normal(0.0, spread, size=children.shape)
        changes *= rng.random(size=changes.shape) < 0.4
        children = np.clip(children + changes, -1.0, 1.0)
        drives = np.concatenate([parents, children])
        costs = np.concatenate([parent_costs, evaluate(children, state, goal, hold)])
    best = np.argsort(costs, kind="stable")[:PARENTS]
    return drives[best], costs[best]


def evaluate(drives: np.ndarray, state: np.ndarray, goal: np.ndarray, hold: int) -> np.ndarray:
    """Summed cost of every drive from the state until it parks, crashes or runs out."""
    count = len(drives)
    x, y = np.full(count, state[0] * 100.0), np.full(count, state[1] * 100.0)
    heading = np.full(count, math.atan2(state[5], state[4]))
    speed = np.full(count, 5.0 * (state[2] * state[4] + state[3] * state[5]))
    total, running = np.zeros(count), np.ones(count, dtype=bool)
    cost = np.zeros(count)
    for knot in range(drives.shape[1]):
        throttle = FULL_THROTTLE * drives[:, knot, 0]
        slip = np.arctan(0.5 * np.tan(FULL_STEERING * drives[:, knot, 1]))
        turn = np.sin(slip) / HALF_LENGTH
        for _ in range(hold):
            for _ in range(SUBSTEPS):
                x += speed * np.cos(heading + slip) * DT
                y += speed * np.sin(heading + slip) * DT
                heading += speed * turn * DT
                speed += throttle * DT
            cosine, sine = np.cos(heading), np.sin(heading)
            error = np.abs(x / 100.0 - goal[0]) + 0.3 * np.abs(y / 100.0 - goal[1])
            error += 0.02 * (np.abs(cosine - goal[4]) + np.abs(sine - goal[5]))
            cost = np.sqrt(error)
            total += np.where(running, cost, 0.0)
            reach_x = np.abs(x) + HALF_LENGTH * np.abs(cosine) + HALF_WIDTH * np.abs(sine)
            reach_y = np.abs(y) + HALF_LENGTH * np.abs(sine) + HALF_WIDTH * np.abs(cosine)
            crashed = running & ((reach_x > WALL_X) | (reach_y > WALL_Y))
            total += CRASH_COST * crashed
            running &= ~crashed & (cost > SUCCESS)
    return total + np.where(running, 50.0 * cost, 0.0)
