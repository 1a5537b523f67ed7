"""Summaries of many normalised scores at once, after Agarwal et al. (2021). The last axis but one holds the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]  # scores, or scores x draws


def interquartile_mean(pooled: Scores) -> Scores:
    """Mean of the middle half: a quarter of the scores, rounded down, is cut off at each end."""
    cut = len(pooled) // 4
    return np.asarray(np.sort(pooled, axis=0)[cut : len(pooled) - cut].mean(axis=0))


def optimality_gap(pooled: Scores) -> Scores:
    """How far scores fall short of 1 on average; what lies above 1 makes up for nothing."""
    return np.asarray(1.0 - np.minimum(pooled, 1.0).mean(axis=0))


def performance_profile(pooled: Scores, thresholds: Sequence[float]) -> Scores:
    """Thresholds (x draws): the share of scores above each."""
    return np.stack([np.asarray((pooled > threshold).mean(axis=0)) for threshold in thresholds])


def probability_of_improvement(first: Sequence[Scores], second: Sequence[Scores]) -> Scores:
    """That a run of the first scores more than a run of the second on the same task, ties half; mean over tasks."""
    return np.asarray(np.mean([_beats(one, other) for one, other in zip(first, second, strict=True)], axis=0))


def _beats(one: Scores, other: Scores) -> Scores:
    difference = one[:, None] - other[None, :]
    return np.asarray(((difference > 0).mean(axis=(0, 1)) + (difference >= 0).mean(axis=(0, 1))) / 2)
