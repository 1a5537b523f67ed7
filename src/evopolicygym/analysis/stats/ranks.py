"""Ranks, rank scores and rank intervals. Equal scores share the best rank.

A rank interval holds the true rank: an entrant ranks behind all that are surely better and ahead of all that are surely
worse. Pairs are judged by the p-values of their differences, with Holm's correction over all pairs, so that the
intervals of all entrants hold at once. Unlike percentiles of drawn ranks they stay right when entrants are close
(Mogstad et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.scores import mean_if_known
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL
from evopolicygym.analysis.stats.multiple_testing import holm


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


@dataclass(frozen=True)
class RankInterval:
    """The best and the worst rank that an entrant may truly have."""

    first: int
    last: int


def rank_intervals(count: int, test: Callable[[int, int], tuple[float, float | None]]) -> list[RankInterval]:
    """Return the rank interval of each of ``count`` entrants.

    ``test(i, j)`` returns the score of i minus that of j, and the p-value of their being equal, None where it is
    unknown; it is called once for each pair. With probability 95 % all intervals hold at once.
    """
    pairs = [(i, j) for i in range(count) for j in range(i)]
    tested = [test(i, j) for i, j in pairs]
    signs = [[0] * count for _ in range(count)]
    for (i, j), (difference, _), p_value in zip(pairs, tested, holm([p for _, p in tested]), strict=True):
        if p_value is not None and p_value <= 1.0 - CONFIDENCE_LEVEL:
            signs[i][j] = int(difference > 0.0) - int(difference < 0.0)
            signs[j][i] = -signs[i][j]
    return [RankInterval(1 + sum(sign < 0 for sign in row), count - sum(sign > 0 for sign in row)) for row in signs]
