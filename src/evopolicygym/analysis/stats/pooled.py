"""Summaries of the runs of all tasks, after Agarwal et al. (2021), from normalised returns (runs x cases) on each task.

They are not plain means: part of the runs counts with a constant instead of with its returns. With these constants in
place, the error is that of a mean (`estimates`): winsorised, as in Tukey and McLaughlin's (1963) interval of a trimmed
mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.by_task import bounded_mean
from evopolicygym.analysis.stats.estimates import Estimate, Interval, Number, average, estimate_score


def interquartile_mean(scores: Matrix) -> float:
    """Return the mean of the middle half: a quarter of the scores, rounded down, is cut off at each end."""
    cut = len(scores) // 4
    return float(np.sort(scores)[cut : len(scores) - cut].mean())


def optimality_gap(scores: Matrix) -> float:
    """Return how far scores fall short of 1 on average; scores above 1 count as 1."""
    return float(1.0 - np.minimum(scores, 1.0).mean())


def estimate_interquartile_mean(tasks: Sequence[Matrix]) -> Number:
    """Return the interquartile mean of all runs, with an interval over runs and cases; without one where a task has one
    run."""
    scores = np.sort(np.concatenate([matrix.mean(axis=1) for matrix in tasks]))
    cut = len(scores) // 4
    kept = [_limited(matrix, scores[cut], scores[len(scores) - cut - 1]) for matrix in tasks]
    error = average([estimate_score(matrix) for matrix in kept]).scaled(len(scores) / (len(scores) - 2 * cut))
    return _number(replace(error, value=interquartile_mean(scores)))


def estimate_optimality_gap(tasks: Sequence[Matrix]) -> Number:
    """Return the optimality gap as a mean over tasks, with an interval over runs and cases; without one where a task
    has one run."""
    kept = [_limited(matrix, -np.inf, 1.0) for matrix in tasks]
    number = _number(average([estimate_score(matrix) for matrix in kept]).scaled(-1.0).shifted(1.0))
    interval = number.interval
    return Number(number.value, Interval(max(interval.low, 0.0), interval.high) if interval else None)


def _limited(matrix: Matrix, low: float, high: float) -> Matrix:
    """Replace the returns of runs whose mean is outside of the limits by the limit."""
    means = matrix.mean(axis=1, keepdims=True)
    return np.where(means < low, low, np.where(means > high, high, matrix))


def _number(estimate: Estimate) -> Number:
    return Number(estimate.value, estimate.interval() if estimate.varies and not estimate.one_run else None)


def performance_profile(tasks: Sequence[Matrix], thresholds: Sequence[float]) -> tuple[Number, ...]:
    """Return the share of runs above each threshold, as a mean over tasks from the scores of runs on each.

    The interval is over tasks, and so valid with one run of each. It is that of a single threshold: the band does not
    hold at all of them at once. A single task has no interval.
    """
    shares = [[float((scores > threshold).mean()) for scores in tasks] for threshold in thresholds]
    return tuple(bounded_mean(values) if len(values) > 1 else Number(values[0], None) for values in shares)
