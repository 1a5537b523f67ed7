"""Aggregates of normalised scores over tasks and runs, after Agarwal et al. (2021).

The first axis holds the scores, the second, where there is one, the bootstrap draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]  # scores, or scores x draws


def interquartile_mean(pooled: Scores) -> Scores:
    """Return the mean of the middle half: a quarter of the scores, rounded down, is cut off at each end."""
    cut = len(pooled) // 4
    return np.asarray(np.sort(pooled, axis=0)[cut : len(pooled) - cut].mean(axis=0))


def optimality_gap(pooled: Scores) -> Scores:
    """Return how far scores fall short of 1 on average; scores above 1 count as 1."""
    return np.asarray(1.0 - np.minimum(pooled, 1.0).mean(axis=0))


def performance_profile(pooled: Scores, thresholds: Sequence[float]) -> Scores:
    """Return the share of scores above each threshold."""
    return np.stack([np.asarray((pooled > threshold).mean(axis=0)) for threshold in thresholds])


def probability_of_improvement(first: Sequence[Scores], second: Sequence[Scores]) -> Scores:
    """Return the probability that a run of the first beats a run of the second: mean over tasks, ties count half."""
    return np.asarray(np.mean([_beats(mine, theirs) for mine, theirs in zip(first, second, strict=True)], axis=0))


def _beats(mine: Scores, theirs: Scores) -> Scores:
    """Return the share of pairs that the first wins. One run at a time: all pairs at once need too much memory."""
    pairs = len(mine) * len(theirs)
    above = sum(np.asarray((run > theirs).sum(axis=0)) for run in mine)
    not_below = sum(np.asarray((run >= theirs).sum(axis=0)) for run in mine)
    return np.asarray((above / pairs + not_below / pairs) / 2)
