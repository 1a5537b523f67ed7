"""Ranks, where equals share the best one, and the scores that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.scores import mean_if_known

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
