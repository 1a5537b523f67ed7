"""Does the order of entrants depend on choices of the analysis: the aggregate, the scale, or a single task?

A choice changes the order if it reverses two entrants. Entrants that become equal are not reversed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.scores import mean, mean_if_known
from evopolicygym.analysis.stats.pooled import interquartile_mean
from evopolicygym.analysis.stats.ranks import rank_score, ranks

RunScores = NDArray[np.float64]  # of one entrant on one task, in units of a scale
MEAN: Final = "mean"
IQM: Final = "interquartile mean"
MEDIAN: Final = "median"
RANK: Final = "rank score"
FEWEST_TASKS: Final = 2


@dataclass(frozen=True)
class OrderUnder:
    """The ranks of entrants under one choice, and the pairs that it reverses: the better one of the table first."""

    choice: str
    ranks: dict[str, int]
    reversed: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sensitivity:
    """Orders under other choices than the mean of the table's scale. ``left_out`` has an order for each task that is
    left out."""

    choices: tuple[OrderUnder, ...]
    left_out: tuple[OrderUnder, ...]

    @property
    def changing(self) -> list[str]:
        """Choices that change the order, and tasks that do when they are left out."""
        orders = (*self.choices, *self.left_out)
        return [order.choice for order in orders if order.reversed]

    def left_out_ranks(self, entrant: str) -> tuple[int, int]:
        """Return the best and the worst rank of an entrant when one task is left out."""
        entrant_ranks = [order.ranks[entrant] for order in self.left_out]
        return min(entrant_ranks), max(entrant_ranks)


def sensitivity(
    tasks: Sequence[str],
    scores: Mapping[str, Sequence[RunScores]],
    returns: Mapping[str, Sequence[float]],
    other_scales: Mapping[str, Mapping[str, Sequence[RunScores]]],
) -> Sensitivity | None:
    """Order entrants under other choices.

    Args:
        tasks: Names of the tasks, in the order of all lists.
        scores: Of each entrant: the normalised scores of its runs on each task.
        returns: Of each entrant: its mean return on each task, for the ranks.
        other_scales: ``scores`` on other scales, by the name of the scale.

    Returns:
        None with one entrant, or with fewer than two tasks.
    """
    if len(scores) < 2 or len(tasks) < FEWEST_TASKS:
        return None
    base = {name: _mean(runs) for name, runs in scores.items()}
    choices: dict[str, Mapping[str, float]] = {
        IQM: {name: float(interquartile_mean(np.concatenate(runs))) for name, runs in scores.items()},
        MEDIAN: {name: median_of_tasks(runs) for name, runs in scores.items()},
        RANK: rank_scores(returns),
        **{scale: {name: _mean(runs) for name, runs in other.items()} for scale, other in other_scales.items()},
    }
    without = {
        task: {name: _mean([*runs[:i], *runs[i + 1 :]]) for name, runs in scores.items()}
        for i, task in enumerate(tasks)
    }
    return Sensitivity(
        choices=tuple(_order(choice, base, other) for choice, other in choices.items()),
        left_out=tuple(_order(f"without {task}", base, other) for task, other in without.items()),
    )


def _mean(runs: Sequence[RunScores]) -> float:
    return mean(float(of_task.mean()) for of_task in runs)


def median_of_tasks(runs: Sequence[RunScores]) -> float:
    """Return the median over tasks of an entrant's mean score."""
    return float(np.median([float(of_task.mean()) for of_task in runs]))


def rank_scores(returns: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the paper's rank score of each entrant: its mean over tasks."""
    count = len(returns)
    by_task = [ranks(list(row)) for row in zip(*returns.values(), strict=True)]
    totals = [mean_if_known(rank_score(row[i], count) for row in by_task) for i in range(count)]
    return {name: total or 0.0 for name, total in zip(returns, totals, strict=True)}


def _order(choice: str, base: Mapping[str, float], other: Mapping[str, float]) -> OrderUnder:
    ordered = sorted(base, key=lambda name: -base[name])
    swapped = [
        (better, worse)
        for better, worse in combinations(ordered, 2)
        if base[better] > base[worse] and other[better] < other[worse]
    ]
    return OrderUnder(choice, dict(zip(other, ranks(list(other.values())), strict=True)), tuple(swapped))
