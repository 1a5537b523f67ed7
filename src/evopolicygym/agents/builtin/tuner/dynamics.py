"""What the first episodes show about a task: scales, velocities, effects of controls, and Jacobians of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .evaluator import RecordedEpisode
from .policies.features import Vector
from .spaces import Spaces

Indices = NDArray[np.intp]
SPEED_WORDS: Final = ("veloc", "speed", "rate")
ERROR_WORDS: Final = ("error", "_minus_", "distance_to", "relative_to")
MOST_BASIS: Final = 6  # entries whose products may enter the Jacobian
RIDGE: Final = 1e-6
TRUSTED: Final = 0.5  # share of the variance that a regression must explain


@dataclass(frozen=True)
class Jacobian:
    """Change of the error entries in one step, for each control's motion: see policies/reach.py."""

    error: Indices
    velocity: Indices
    basis: Indices
    coefficients: Vector
    push: Vector


class Dynamics:
    """Learned from the episodes that explored. ``effect[i, j]``: how far control j pushes entry i in one step, in
    standard deviations of that entry's changes."""

    def __init__(self, spaces: Spaces, episodes: list[RecordedEpisode]) -> None:
        played = [episode for episode in episodes if len(episode.controls)] or [_nothing(spaces)]
        before = np.concatenate([episode.entries[: len(episode.controls)] for episode in played])
        self.controls = np.concatenate([episode.controls for episode in played])
        after = np.concatenate([_following(episode) for episode in played])
        self.before, self.change = before, after - before
        self.mean, self.scale = before.mean(axis=0), np.maximum(before.std(axis=0), 1e-3)
        self.velocities = _velocities(spaces, self)
        self.effect = _effect(self)
        self.error = np.array([i for i, (name, _) in enumerate(spaces.names) if _says(name, ERROR_WORDS)], dtype=int)

    @property
    def moving(self) -> Indices:
        """Entries that change within an episode; the others tell episodes apart."""
        return np.flatnonzero(self.change.std(axis=0) > 1e-9)

    def own_velocities(self) -> Indices:
        """For each control the velocity that it pushes most; empty where two controls share one."""
        if not len(self.velocities):
            return self.velocities
        own: Indices = self.velocities[np.abs(self.effect[self.velocities]).argmax(axis=0)]
        return own if len(set(own)) == len(own) else own[:0]

    def jacobians(self) -> list[Jacobian]:
        """By velocities and by controls, whichever explain the motion of the error; the better one first."""
        if not len(self.error):
            return []
        own = self.own_velocities()
        choices = [self._jacobian(own), self._jacobian(own[:0])]
        trusted = sorted((fit for fit in choices if fit and fit[0] > TRUSTED), key=lambda fit: -fit[0])
        return [jacobian for _, jacobian in trusted]

    def _jacobian(self, velocity: Indices) -> tuple[float, Jacobian] | None:
        """Taken at the middle of the step, where the mean velocity and the mean posture are."""
        middle = self.before + self.change / 2.0
        motion = middle[:, velocity] if len(velocity) else self.controls
        basis = self._basis(velocity)
        table = products(middle[:, basis])
        rows = np.einsum("tm,tb->tmb", motion, table).reshape(len(motion), -1)
        if len(rows) < 2 * rows.shape[1]:
            return None
        wanted = self.change[:, self.error]
        solution = solve(rows, wanted)
        explained = 1.0 - float(((wanted - rows @ solution) ** 2).sum() / max((wanted**2).sum(), 1e-12))
        coefficients = solution.T.reshape(len(self.error), motion.shape[1], table.shape[1])
        push = self._push(velocity)
        return explained, Jacobian(self.error, velocity, basis, coefficients, push)

    def _basis(self, velocity: Indices) -> Indices:
        """Bounded entries that move, such as sines and cosines of joint angles."""
        left_out = {*map(int, self.error), *map(int, self.velocities), *map(int, velocity)}
        bounded = [i for i in self.moving if i not in left_out and np.abs(self.before[:, i]).max() <= 1.0 + 1e-6]
        return np.array(bounded[:MOST_BASIS] if len(bounded) <= MOST_BASIS else [], dtype=int)

    def _push(self, velocity: Indices) -> Vector:
        if not len(velocity):
            return np.ones(self.controls.shape[1])
        return np.array([self._slope(v, j) for j, v in enumerate(velocity)])

    def _slope(self, entry: int, control: int) -> float:
        centred = self.controls[:, control] - self.controls[:, control].mean()
        return float(centred @ self.change[:, entry] / max(centred @ centred, 1e-12)) or 1.0


def products(rows: Vector) -> Vector:
    """As in policies/reach.py, for many rows."""
    first, second = np.triu_indices(rows.shape[1])
    return np.concatenate([np.ones((len(rows), 1)), rows, rows[:, first] * rows[:, second]], axis=1)


def solve(rows: Vector, wanted: Vector) -> Vector:
    """Least squares with a little ridge, relative to the size of the columns."""
    square = rows.T @ rows
    ridge = RIDGE * max(np.trace(square) / len(square), 1e-12)
    solution: Vector = np.linalg.solve(square + ridge * np.eye(len(square)), rows.T @ wanted)
    return solution


def _following(episode: RecordedEpisode) -> Vector:
    """Where an episode has no last observation (its recording was cut), it stays where it was."""
    count = len(episode.controls)
    return np.concatenate([episode.entries[1:], episode.entries[-1:]])[:count]


def _nothing(spaces: Spaces) -> RecordedEpisode:
    """Where no step was ever played there is nothing to learn from, and the families still have to be built."""
    return RecordedEpisode(np.zeros((2, len(spaces.names))), np.zeros((1, spaces.controls)))


def _effect(dynamics: Dynamics) -> Vector:
    centred = dynamics.controls - dynamics.controls.mean(axis=0)
    slope = solve(centred, dynamics.change - dynamics.change.mean(axis=0))
    effect: Vector = (slope * centred.std(axis=0)[:, None]).T / np.maximum(dynamics.change.std(axis=0), 1e-9)[:, None]
    return effect


def _velocities(spaces: Spaces, dynamics: Dynamics) -> Indices:
    """By name or unit; where nothing is named, entries that are the rate of another one."""
    named = [i for i, (name, unit) in enumerate(spaces.names) if _says(name, SPEED_WORDS) or "/s" in unit]
    moving = set(dynamics.moving.tolist())
    found = [i for i in named if i in moving] or [i for i in sorted(moving) if _is_rate(dynamics, i)]
    return np.array(found, dtype=int)


def _is_rate(dynamics: Dynamics, entry: int) -> bool:
    """Some other entry changes in proportion to this one."""
    speed = dynamics.before[:, entry]
    spread = np.linalg.norm(dynamics.change, axis=0) * np.linalg.norm(speed)
    alike = np.abs(dynamics.change.T @ speed) / np.maximum(spread, 1e-12)
    alike[entry] = 0.0
    return bool(alike.max() > 0.95)


def _says(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)
