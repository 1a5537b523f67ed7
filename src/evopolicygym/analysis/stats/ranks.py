"""Ranks, rank scores and rank intervals. Equal scores share the best rank.

A rank interval holds the true rank: an entrant ranks behind all that are surely better and ahead of all that are surely
worse. Each pair is judged by its paired difference, with Bonferroni's correction for the number of opponents. Unlike
percentiles of drawn ranks the interval stays right when entrants are close (Mogstad et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.scores import mean_if_known
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, Estimate

Draws = NDArray[np.float64]
TOLERANCE = 1e-9  # of the largest value: a smaller difference between draws comes from the order of summation


@dataclass(frozen=True)
class RankScore:
    """Summary of ranks over several tasks. ``score`` is None when there was a single entrant."""

    score: float | None
    wins: int
    top2: int


def ranks(scores: Sequence[float]) -> list[int]:
    """Return the rank of each score: 1 + the number of scores that are strictly greater."""
    return [1 + sum(other > score for other in scores) for score in scores]


def rank_score(rank: int, entrants: int) -> float | None:
    """Map rank 1 to 1 and the last rank to 0; None for a single entrant."""
    return None if entrants == 1 else 1.0 - (rank - 1) / (entrants - 1)


def over_tasks(ranked: Sequence[tuple[int, int]]) -> RankScore:
    """Summarize the rank and the number of entrants on each task."""
    return RankScore(
        score=mean_if_known(rank_score(rank, entrants) for rank, entrants in ranked),
        wins=sum(rank == 1 for rank, _ in ranked),
        top2=sum(rank <= 2 for rank, _ in ranked),
    )


def drawn_ranks(draws: Draws) -> NDArray[np.int64]:
    """Rank the entrants within each draw (entrants x draws). One entrant at a time: all pairs at once need too much
    memory."""
    least = TOLERANCE * np.abs(draws).max(axis=0)
    return np.stack([1 + (draws - entrant > least).sum(axis=0) for entrant in draws])


@dataclass(frozen=True)
class RankInterval:
    """The best and the worst rank that an entrant may truly have."""

    first: int
    last: int


def rank_intervals(count: int, difference: Callable[[int, int], Estimate]) -> list[RankInterval]:
    """Return the rank interval of each of ``count`` entrants.

    ``difference(i, j)`` estimates the score of i minus that of j; it is called once for each pair.
    """
    level = 1.0 - (1.0 - CONFIDENCE_LEVEL) / max(count - 1, 1)
    signs = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            signs[i][j] = _sign(difference(i, j), level)
            signs[j][i] = -signs[i][j]
    return [RankInterval(1 + sum(sign < 0 for sign in row), count - sum(sign > 0 for sign in row)) for row in signs]


def _sign(difference: Estimate, level: float) -> int:
    """Return 1 for surely above, -1 for surely below, 0 for undecided."""
    interval = difference.interval(level)
    if interval is None:
        return 0
    return int(interval.low > 0.0) - int(interval.high < 0.0)
