"""Ranks, where equals share the best one, and the scores that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.scores import mean_if_known
from evopolicygym.analysis.stats.estimates import LEVEL, Estimate

Draws = NDArray[np.float64]
SAME = 1e-9  # of the largest value: what differs by less in a bootstrap draw differs by the order of summation


@dataclass(frozen=True)
class RankScore:
    """Over several tasks. ``score`` is null when there was nobody to be ranked against."""

    score: float | None
    wins: int
    top2: int


def ranks(scores: Sequence[float]) -> list[int]:
    """1 + the number of entrants that are strictly greater."""
    return [1 + sum(other > score for other in scores) for score in scores]


def rank_score(rank: int, entrants: int) -> float | None:
    return None if entrants == 1 else 1.0 - (rank - 1) / (entrants - 1)


def over_tasks(placed: Sequence[tuple[int, int]]) -> RankScore:
    """``placed`` is the rank and the number of entrants on each task."""
    scores = [rank_score(rank, entrants) for rank, entrants in placed]
    return RankScore(
        score=mean_if_known(scores),
        wins=sum(rank == 1 for rank, _ in placed),
        top2=sum(rank <= 2 for rank, _ in placed),
    )


def drawn_ranks(draws: Draws) -> NDArray[np.int64]:
    """Entrants x draws to the rank in each draw."""
    least = SAME * np.abs(draws).max(axis=0)
    greater = draws[None, :, :] - draws[:, None, :] > least
    return np.asarray(1 + greater.sum(axis=1))


@dataclass(frozen=True)
class RankInterval:
    first: int
    last: int


def rank_intervals(count: int, difference: Callable[[int, int], Estimate]) -> list[RankInterval]:
    """``difference(i, j)`` is the score of i minus that of j. Called once for each pair."""
    level = 1.0 - (1.0 - LEVEL) / max(count - 1, 1)
    surer = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            surer[i][j] = _sign(difference(i, j), level)
            surer[j][i] = -surer[i][j]
    return [_places(row) for row in surer]


def _places(row: Sequence[int]) -> RankInterval:
    return RankInterval(1 + sum(sign < 0 for sign in row), len(row) - sum(sign > 0 for sign in row))


def _sign(difference: Estimate, level: float) -> int:
    """1 surely above, -1 surely below, 0 undecided."""
    interval = difference.interval(level)
    if interval is None:
        return 0
    return int(interval.low > 0.0) - int(interval.high < 0.0)
