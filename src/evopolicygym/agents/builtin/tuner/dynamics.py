"""Model of a task learned from its first episodes: scales, velocities, effects of controls, Jacobians of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .evaluator import RecordedEpisode, Spaces
from .policies.features import Vector

Indices = NDArray[np.intp]
SPEED_WORDS: Final = ("veloc", "speed", "rate")
ERROR_WORDS: Final = ("error", "_minus_", "distance_to", "relative_to")
MOST_BASIS: Final = 6  # entries whose products may enter the Jacobian
RIDGE: Final = 1e-6
TRUSTED: Final = 0.5  # share of the variance that a regression must explain


@dataclass(frozen=True)
class Jacobian:
    """Change of the error entries in one step per unit of each control's motion; policies/reach.py uses it."""

    error: Indices
    velocity: Indices
    basis: Indices
    coefficients: Vector
    push: Vector


class Dynamics:
    """Dynamics estimated from the exploring episodes. ``effect[i, j]`` is how far control j pushes entry i in one step,
    in standard deviations of that entry's changes."""

    def __init__(self, spaces: Spaces, episodes: list[RecordedEpisode]) -> None:
        played = [episode for episode in episodes if len(episode.controls)] or [_empty_episode(spaces)]
        before = np.concatenate([episode.entries[: len(episode.controls)] for episode in played])
        self.controls = np.concatenate([episode.controls for episode in played])
        after = np.concatenate([_following(episode) for episode in played])
        self.before, self.change = before, after - before
        self.mean, self.scale = before.mean(axis=0), np.maximum(before.std(axis=0), 1e-3)
        self.velocities = _velocities(spaces, self)
        self.effect = _effect(self)
        self.error = np.array(
            [i for i, (name, _) in enumerate(spaces.names) if _contains(name, ERROR_WORDS)], dtype=int
        )

    @property
    def moving(self) -> Indices:
        """Entries that change within an episode; the others only differ between episodes."""
        return np.flatnonzero(self.change.std(axis=0) > 1e-9)

    def own_velocities(self) -> Indices:
        """Return the velocity that each control pushes most; nothing if two controls share one."""
        if not len(self.velocities):
            return self.velocities
        own: Indices = self.velocities[np.abs(self.effect[self.velocities]).argmax(axis=0)]
        return own if len(set(own)) == len(own) else own[:0]

    def jacobians(self) -> list[Jacobian]:
        """Fit Jacobians to velocities and to controls; return those that explain how the error moves, best first."""
        if not len(self.error):
            return []
        own = self.own_velocities()
        choices = [self._jacobian(own), self._jacobian(own[:0])]
        trusted = sorted((fit for fit in choices if fit and fit[0] > TRUSTED), key=lambda fit: -fit[0])
        return [jacobian for _, jacobian in trusted]

    def _jacobian(self, velocity: Indices) -> tuple[float, Jacobian] | None:
        """Return the share of variance explained and the Jacobian; None with too few steps for a fit.

        It is taken at the middle of each step, where the values are closest to the means over the step.
        """
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
        """Return bounded entries that move, such as sines and cosines of joint angles; none if there are too many."""
        excluded = {*map(int, self.error), *map(int, self.velocities), *map(int, velocity)}
        bounded = [i for i in self.moving if i not in excluded and np.abs(self.before[:, i]).max() <= 1.0 + 1e-6]
        return np.array(bounded[:MOST_BASIS] if len(bounded) <= MOST_BASIS else [], dtype=int)

    def _push(self, velocity: Indices) -> Vector:
        if not len(velocity):
            return np.ones(self.controls.shape[1])
        return np.array([self._slope(v, j) for j, v in enumerate(velocity)])

    def _slope(self, entry: int, control: int) -> float:
        centred = self.controls[:, control] - self.controls[:, control].mean()
        return float(centred @ self.change[:, entry] / max(centred @ centred, 1e-12)) or 1.0


def products(rows: Vector) -> Vector:
    """Return 1, the entries and their pairwise products for each row, as policies/reach.py does for one."""
    first, second = np.triu_indices(rows.shape[1])
    return np.concatenate([np.ones((len(rows), 1)), rows, rows[:, first] * rows[:, second]], axis=1)


def solve(rows: Vector, wanted: Vector) -> Vector:
    """Solve least squares with a small ridge penalty, relative to the size of the columns."""
    square = rows.T @ rows
    ridge = RIDGE * max(np.trace(square) / len(square), 1e-12)
    solution: Vector = np.linalg.solve(square + ridge * np.eye(len(square)), rows.T @ wanted)
    return solution


def _following(episode: RecordedEpisode) -> Vector:
    """Return the observation after each step; if the last one is missing (the recording was cut), repeat the last."""
    count = len(episode.controls)
    return np.concatenate([episode.entries[1:], episode.entries[-1:]])[:count]


def _empty_episode(spaces: Spaces) -> RecordedEpisode:
    """Return one step of zeros, so that families can be built even if no step was ever played."""
    return RecordedEpisode(np.zeros((2, len(spaces.names))), np.zeros((1, spaces.controls)))


def _effect(dynamics: Dynamics) -> Vector:
    """Regress changes of entries on controls: see Dynamics."""
    centred = dynamics.controls - dynamics.controls.mean(axis=0)
    slope = solve(centred, dynamics.change - dynamics.change.mean(axis=0))
    effect: Vector = (slope * centred.std(axis=0)[:, None]).T / np.maximum(dynamics.change.std(axis=0), 1e-9)[:, None]
    return effect


def _velocities(spaces: Spaces, dynamics: Dynamics) -> Indices:
    """Return moving entries that are velocities by name or unit; if there are none, those that are rates of others."""
    named = [i for i, (name, unit) in enumerate(spaces.names) if _contains(name, SPEED_WORDS) or "/s" in unit]
    moving = set(dynamics.moving.tolist())
    velocities = [i for i in named if i in moving] or [i for i in sorted(moving) if _is_rate(dynamics, i)]
    return np.array(velocities, dtype=int)


def _is_rate(dynamics: Dynamics, entry: int) -> bool:
    """Return whether some other entry changes in proportion to this one."""
    speed = dynamics.before[:, entry]
    spread = np.linalg.norm(dynamics.change, axis=0) * np.linalg.norm(speed)
    alike = np.abs(dynamics.change.T @ speed) / np.maximum(spread, 1e-12)
    alike[entry] = 0.0
    return bool(alike.max() > 0.95)


def _contains(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)
