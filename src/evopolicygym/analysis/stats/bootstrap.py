"""Aggregates of normalised scores over tasks and runs, after Agarwal et al. (2021), and bootstrap draws over runs and
cases for the intervals of quantities that are not plain means.

Each draw resamples the cases of a task once, shared by all entrants, and then the runs of each entrant. With few runs
resampling alone gives means the wrong spread: too little between runs (by (runs - 1) / runs) and too much residual
variance, which both margins contribute. The mean of each draw is therefore moved away from the estimate until the means
spread as `estimates.estimate_score` says; the spread of runs about the mean stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, Interval, estimate_score

DRAWS: Final = 10_000
SEED: Final = 20_260_702
Drawn = NDArray[np.float64]
Scores = NDArray[np.float64]  # scores, or scores x draws: an aggregate is taken over the first axis
Key = TypeVar("Key")


def draw(matrices: Mapping[Key, Matrix], generator: np.random.Generator, draws: int = DRAWS) -> dict[Key, Drawn]:
    """Return for each entrant of one task the held-out means of the drawn runs (runs x draws).

    All matrices must have the same cases.
    """
    (cases,) = {matrix.shape[1] for matrix in matrices.values()}
    counts = generator.multinomial(cases, np.full(cases, 1.0 / cases), size=draws)
    return {key: _draw_runs(matrix, counts, generator) for key, matrix in matrices.items()}


def _draw_runs(matrix: Matrix, counts: NDArray[np.int64], generator: np.random.Generator) -> Drawn:
    runs, cases = matrix.shape
    means = matrix @ counts.T.astype(np.float64) / cases
    chosen = generator.integers(runs, size=(runs, len(counts)))
    return _matched(np.take_along_axis(means, chosen, axis=0), matrix)


def _matched(drawn: Drawn, matrix: Matrix) -> Drawn:
    """Move whole draws so that the spread of their means equals the standard error."""
    means = drawn.mean(axis=0)
    spread = float(means.std())
    factor = estimate_score(matrix).standard_error / spread if spread else 1.0
    return np.asarray(drawn + (factor - 1.0) * (means - float(matrix.mean())))


def percentile_interval(
    value: float,
    drawn: Drawn,
    degrees: float = math.inf,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    level: float = CONFIDENCE_LEVEL,
) -> Interval:
    """Return percentiles of the draws, stretched about the value by the ratio of the t to the normal quantile."""
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    stretch = float(stdtrit(degrees, (1 + level) / 2) / ndtri((1 + level) / 2))
    low, high = np.clip(value + stretch * (ends - value), *bounds)
    return Interval(min(float(low), value), max(float(high), value))


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
