"""Model of a task learned from its first episodes: scales, velocities, effects of controls, Jacobians of errors.

All of it comes from the data. Names of entries are not used, so that a search is the same at every text of a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..evaluator import RecordedEpisode, Spaces
from ..policies.features import Vector

Indices = NDArray[np.intp]
RATE: Final = 0.85  # correlation of a velocity with the changes of what moves with it
CLEAR_EFFECT: Final = 0.3  # of a control on an entry, in standard deviations of its changes
COPY: Final = 1.0 - 1e-9  # correlation of two entries that hold the same
ENOUGH_STEPS: Final = 100  # of a control or a choice, to conclude that it does nothing, or the same as another
SURE: Final = 4.0  # standard errors of an effect that is not chance
MOST_BASIS: Final = 6  # entries whose products enter the Jacobian
RIDGE: Final = 1e-6
ERROR_ROWS: Final = 500  # steps that errors are sought in
ERROR_STARTS: Final = 4
LARGEST_ERROR: Final = 3  # entries
ERROR_WEIGHTS: Final = tuple(4.0**power for power in range(-4, 5))
BETTER: Final = 0.7  # an entry that joins a fit leaves at most this share of what was unexplained
WORTH: Final = 0.05  # of what is unexplained without an error: each of its entries explains at least so much
EXPLAINED: Final = 0.995  # share of the variance from which on a Jacobian needs no further entry
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
    in standard deviations of that entry's changes. ``moving``: entries that change within an episode, without copies of
    others. ``live``: controls that do something; of choices that do the same, the first."""

    def __init__(self, spaces: Spaces, episodes: list[RecordedEpisode]) -> None:
        played = [episode for episode in episodes if len(episode.controls)] or [_empty_episode(spaces)]
        before = np.concatenate([episode.entries[: len(episode.controls)] for episode in played])
        self.controls = np.concatenate([episode.controls for episode in played])
        after = np.concatenate([_following(episode) for episode in played])
        self.before, self.change = before, after - before
        self.rewards = np.concatenate([episode.rewards for episode in played])
        self.mean, self.scale = before.mean(axis=0), np.maximum(before.std(axis=0), 1e-3)
        self.moving = _moving(self)
        self.effect = _effect(self)
        self.live = _distinct_choices(self) if spaces.is_choice else _live_controls(self)
        self.velocities = _velocities(self)
        goals = np.array([i for i, kind in enumerate(spaces.kinds) if kind == "error"], dtype=int)
        self.error = goals if len(goals) else error_in_reward(self)

    def own_velocities(self) -> Indices:
        """Return the velocity that each live control pushes most; nothing if two controls share one."""
        if not len(self.velocities):
            return self.velocities
        own: Indices = self.velocities[np.abs(self.effect[np.ix_(self.velocities, self.live)]).argmax(axis=0)]
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

        Entries join the basis while each leaves much less of the error's motion unexplained.
        """
        excluded = {*map(int, self.error), *map(int, self.velocities), *map(int, velocity)}
        candidates = [int(i) for i in self.moving if i not in excluded]
        best = self._jacobian_on(velocity, [])
        while best and best[0] < EXPLAINED and len(best[1].basis) < MOST_BASIS:
            basis = best[1].basis.tolist()
            fits = [self._jacobian_on(velocity, [*basis, entry]) for entry in candidates if entry not in basis]
            better = max((fit for fit in fits if fit), key=lambda fit: fit[0], default=best)
            if 1.0 - better[0] > BETTER * (1.0 - best[0]):
                break
            best = better
        return best

    def _jacobian_on(self, velocity: Indices, basis: list[int]) -> tuple[float, Jacobian] | None:
        """Fit the Jacobian on products of these entries.

        It is taken at the middle of each step, where the values are closest to the means over the step.
        """
        middle = self.before + self.change / 2.0
        motion = middle[:, velocity] if len(velocity) else self.controls[:, self.live]
        used = np.array(basis, dtype=int)
        table = products(middle[:, used])
        rows = np.einsum("tm,tb->tmb", motion, table).reshape(len(motion), -1)
        if len(rows) < 2 * rows.shape[1]:
            return None
        wanted = self.change[:, self.error]
        solution = solve(rows, wanted)
        explained = 1.0 - float(((wanted - rows @ solution) ** 2).sum() / max((wanted**2).sum(), 1e-12))
        coefficients = solution.T.reshape(len(self.error), motion.shape[1], table.shape[1])
        return explained, Jacobian(self.error, velocity, used, coefficients, self._push(velocity))

    def _push(self, velocity: Indices) -> Vector:
        if not len(velocity):
            return np.ones(len(self.live))
        return np.array([self._slope(v, j) for v, j in zip(velocity, self.live, strict=True)])

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
    return RecordedEpisode(np.zeros((2, len(spaces.kinds))), np.zeros((1, spaces.controls)), np.zeros(1))


def _effect(dynamics: Dynamics) -> Vector:
    """Regress changes of entries on controls: see Dynamics."""
    centred = dynamics.controls - dynamics.controls.mean(axis=0)
    slope = solve(centred, dynamics.change - dynamics.change.mean(axis=0))
    effect: Vector = (slope * centred.std(axis=0)[:, None]).T / np.maximum(dynamics.change.std(axis=0), 1e-9)[:, None]
    return effect


def _moving(dynamics: Dynamics) -> Indices:
    """Return entries that change within an episode, the first of each group that are copies up to scale and sign."""
    moving = np.flatnonzero(dynamics.change.std(axis=0) > 1e-9)
    values = dynamics.before[:, moving] - dynamics.mean[moving]
    alike = np.abs(_cosines(values, values)) > COPY
    return moving[~np.triu(alike, 1).any(axis=0)]


def _live_controls(dynamics: Dynamics) -> Indices:
    """Return controls with an effect on some entry; all of them where there are too few steps to tell, or none has."""
    everything, steps = np.arange(dynamics.controls.shape[1]), len(dynamics.controls)
    if steps < ENOUGH_STEPS or not len(dynamics.moving):
        return everything
    centred = dynamics.controls - dynamics.controls.mean(axis=0)
    live = np.flatnonzero(np.abs(_cosines(_surprise(dynamics), centred)).max(axis=0) > SURE / np.sqrt(steps))
    return live if len(live) else everything


def _distinct_choices(dynamics: Dynamics) -> Indices:
    """Return the first of the choices whose mean changes of all entries are alike; all where few steps were played."""
    counts = dynamics.controls.sum(axis=0)
    if counts.min() < ENOUGH_STEPS or not len(dynamics.moving):
        return np.arange(len(counts))
    surprise = _surprise(dynamics)
    means, spread = dynamics.controls.T @ surprise / counts[:, None], surprise.std(axis=0)
    distinct: list[int] = []
    for choice in range(len(counts)):
        errors = [spread * np.sqrt(1.0 / counts[choice] + 1.0 / counts[other]) for other in distinct]
        distances = [np.abs(means[choice] - means[other]) for other in distinct]
        if all((gap > SURE * error).any() for gap, error in zip(distances, errors, strict=True)):
            distinct.append(choice)
    return np.array(distinct if len(distinct) > 1 else range(len(counts)), dtype=int)


def _surprise(dynamics: Dynamics) -> Vector:
    """Return the part of each moving entry's change that does not follow from the entries before it: effects of
    controls are clearer in it."""
    before = (dynamics.before - dynamics.mean)[:, dynamics.moving] / dynamics.scale[dynamics.moving]
    change = dynamics.change[:, dynamics.moving]
    centred: Vector = change - change.mean(axis=0)
    return centred - before @ solve(before, centred) if len(before) > 4 * before.shape[1] else centred


def _velocities(dynamics: Dynamics) -> Indices:
    """Return entries that others change in proportion to, and entries that a control pushes and nothing is rate of.

    Correlations are with the middle of each step. Where two entries explain each other's changes, as in a swing, the
    velocity is the one that explains more: the other is a force.
    """
    moving = dynamics.moving
    change = dynamics.change[:, moving]
    alike = np.abs(_cosines(change, dynamics.before[:, moving] + change / 2.0))  # [moved entry, rate]
    np.fill_diagonal(alike, 0.0)
    is_rate_of = (alike > RATE) & (alike >= alike.T)
    pushed = (np.abs(dynamics.effect[np.ix_(moving, dynamics.live)]) > CLEAR_EFFECT).any(axis=1)
    velocities: Indices = moving[is_rate_of.any(axis=0) | (pushed & ~is_rate_of.any(axis=1))]
    return velocities


def _cosines(first: Vector, second: Vector) -> Vector:
    """Return the cosine of the angle between each column of the first and each of the second."""
    lengths = np.outer(np.linalg.norm(first, axis=0), np.linalg.norm(second, axis=0))
    cosines: Vector = first.T @ second / np.maximum(lengths, 1e-12)
    return cosines


def error_in_reward(dynamics: Dynamics) -> Indices:
    """Return up to three entries whose weighted norm the reward falls with; none if no norm explains it.

    What controls cost is allowed for. An entry alone may explain little, so several starts are tried.
    """
    rewards, after = dynamics.rewards, dynamics.before + dynamics.change
    rows = np.linspace(0, len(rewards) - 1, min(len(rewards), ERROR_ROWS)).astype(int)
    rewards, base_columns = rewards[rows], np.insert(dynamics.controls[rows] ** 2, 0, 1.0, axis=1)
    largest = np.maximum(np.abs(after).max(axis=0), 1e-9)
    squares = (after[rows] / 2.0 ** np.round(np.log2(largest))) ** 2  # units that differ by powers of two are common
    without = _unexplained(base_columns, rewards)[0]
    candidates = set(dynamics.moving.tolist()).difference(dynamics.velocities.tolist())
    if without < 1e-6 * len(rows):
        return np.array([], dtype=int)

    def grown(norm: Vector, chosen: tuple[int, ...]) -> list[tuple[float, tuple[int, ...], float]]:
        """Return the fits with one more entry, best first: what they leave unexplained, the entries, the weight."""
        fits = []
        for entry in sorted(candidates.difference(chosen)):
            for weight in ERROR_WEIGHTS if chosen else (1.0,):
                columns = np.column_stack([base_columns, np.sqrt(norm + weight * squares[:, entry])])
                unexplained, slope = _unexplained(columns, rewards)
                if slope < 0.0:
                    fits.append((unexplained, (*chosen, entry), weight))
        return sorted(fits)

    results = []
    for unexplained, chosen, _ in grown(np.zeros(len(rows)), ())[:ERROR_STARTS]:
        norm = squares[:, chosen[0]]
        while len(chosen) < LARGEST_ERROR and (fits := grown(norm, chosen)):
            if fits[0][0] > min(BETTER * unexplained, unexplained - WORTH * without):
                break
            unexplained, chosen, weight = fits[0]
            norm = norm + weight * squares[:, chosen[-1]]
        results.append((unexplained, chosen))
    unexplained, chosen = min(results, default=(without, ()))
    return np.array(sorted(chosen) if unexplained < (1.0 - TRUSTED) * without else [], dtype=int)


def _unexplained(columns: Vector, wanted: Vector) -> tuple[float, float]:
    """Return the squared error of the best linear fit, and the slope of its last column."""
    solution = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    return float(((wanted - columns @ solution) ** 2).sum()), float(solution[-1])
