"""Acrobot by planning once on the true equations.

The first call of act() searches forward from the observed state, all three torques at once, with one Runge-Kutta step
of the contract's equations for each action. Of the states that fall into one cell of a grid over angles and speeds only
the one with most energy is kept, and of all cells the WIDTH with most energy. The first state above the line ends the
search, and its actions are replayed. Doubling WIDTH saves less than a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = 0.2
"""Seconds between two actions."""
WIDTH, DEPTH = 8000, 200
CELLS = (8.0, 8.0, 4.0, 4.0)
"""Cells per radian of both angles, and per radian a second of both speeds."""
FASTEST = (4.0 * np.pi, 9.0 * np.pi)
TORQUES = np.array([-1.0, 0.0, 1.0])

State = tuple[np.ndarray, ...]  # angle of both links, speed of both


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self._actions: list[int] = []

    def reset(self, episode_index: int) -> None:
        self._actions = []

    def act(self, obs: Any) -> int:
        if not self._actions:
            cos1, sin1, cos2, sin2, *speeds = (float(value) for value in obs)
            self._actions = plan((np.arctan2(sin1, cos1), np.arctan2(sin2, cos2), *speeds))
        return self._actions.pop(0)


def plan(start: tuple[float, ...]) -> list[int]:
    """Actions that lead from a state to the goal, or, if none was found, one torque."""
    state: State = tuple(np.array([value]) for value in start)
    history: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(DEPTH):
        count = len(state[0])
        parents, actions = np.tile(np.arange(count), 3), np.repeat(np.arange(3), count)
        state = advance(tuple(np.tile(part, 3) for part in state), TORQUES[actions])
        goal = -np.cos(state[0]) - np.cos(state[0] + state[1]) > 1.0
        if goal.any():
            return trace([*history, (parents, actions)], int(np.argmax(goal)))
        kept = most_energy(state)
        state = tuple(part[kept] for part in state)
        history.append((parents[kept], actions[kept]))
    return [2]


def trace(history: list[tuple[np.ndarray, np.ndarray]], last: int) -> list[int]:
    """Actions of the branch that ends with a state of the last step."""
    actions = []
    for parents, chosen in reversed(history):
        actions.append(int(chosen[last]))
        last = int(parents[last])
    return actions[::-1]


def most_energy(state: State) -> np.ndarray:
    """Indices of the states to keep: the best of each cell, and of those the best WIDTH."""
    angle1, angle2, speed1, speed2 = state
    bend = np.cos(angle2)
    moving = 0.5 * (3.5 + bend) * speed1**2 + (1.25 + 0.5 * bend) * speed1 * speed2 + 0.625 * speed2**2
    energy = moving - 14.7 * np.cos(angle1) - 4.9 * np.cos(angle1 + angle2)
    order = np.argsort(-energy, kind="stable")
    cells = np.zeros(len(order), dtype=np.int64)
    for part, per_unit in zip(state, CELLS, strict=True):
        cells = 1000 * cells + np.floor(per_unit * part).astype(np.int64) + 500
    _, first = np.unique(cells[order], return_index=True)
    return order[np.sort(first)[:WIDTH]]


def advance(state: State, torque: np.ndarray) -> State:
    """The states after one action."""
    rates = [derivative(state, torque)]
    for part in (0.5 * STEP, 0.5 * STEP, STEP):
        middle = tuple(value + part * rate for value, rate in zip(state, rates[-1], strict=True))
        rates.append(derivative(middle, torque))
    first, second, third, fourth = rates
    after = [
        value + STEP / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        for value, a, b, c, d in zip(state, first, second, third, fourth, strict=True)
    ]
    angles = [(angle + np.pi) % (2.0 * np.pi) - np.pi for angle in after[:2]]
    return (*angles, *(np.clip(speed, -most, most) for speed, most in zip(after[2:], FASTEST, strict=True)))


def derivative(state: State, torque: np.ndarray) -> State:
    """The contract's equations of motion."""
    angle1, angle2, speed1, speed2 = state
    d1, d2 = 3.5 + np.cos(angle2), 1.25 + 0.5 * np.cos(angle2)
    pull2 = 4.9 * np.sin(angle1 + angle2)
    pull1 = 14.7 * np.sin(angle1) + pull2 - (0.5 * speed2**2 + speed2 * speed1) * np.sin(angle2)
    turn2 = (torque + d2 / d1 * pull1 - 0.5 * speed1**2 * np.sin(angle2) - pull2) / (1.25 - d2**2 / d1)
    return speed1, speed2, -(d2 * turn2 + pull1) / d1, turn2
