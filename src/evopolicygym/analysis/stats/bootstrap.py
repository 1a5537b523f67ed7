"""Draws of what other runs on other cases might have given, for quantities that are no plain means.

Cases are crossed with runs, so each draw takes the cases of a task once, shared by all entrants, and then for each
entrant its own runs with replacement. Resampling alone gives means the wrong spread with few runs: too little between
runs (by (runs - 1) / runs), too much of the rest, which both margins bring along. So the mean of each draw is moved
away from the estimate until means spread as `estimates.score` says; the spread of runs about it stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import LEVEL, Interval, estimate_score

DRAWS: Final = 10_000
SEED: Final = 20_260_702
Drawn = NDArray[np.float64]
Key = TypeVar("Key")


def draw(matrices: Mapping[Key, Matrix], generator: np.random.Generator, draws: int = DRAWS) -> dict[Key, Drawn]:
    """For each entrant of one task, runs x draws: the held-out mean of every drawn run. All must share the cases."""
    (cases,) = {matrix.shape[1] for matrix in matrices.values()}
    counts = generator.multinomial(cases, np.full(cases, 1.0 / cases), size=draws)
    return {key: _draw_runs(matrix, counts, generator) for key, matrix in matrices.items()}


def _draw_runs(matrix: Matrix, counts: NDArray[np.int64], generator: np.random.Generator) -> Drawn:
    runs, cases = matrix.shape
    means = matrix @ counts.T.astype(np.float64) / cases
    chosen = generator.integers(runs, size=(runs, len(counts)))
    return _matched(np.take_along_axis(means, chosen, axis=0), matrix)


def _matched(drawn: Drawn, matrix: Matrix) -> Drawn:
    """Move whole draws so that their means spread as they should."""
    means = drawn.mean(axis=0)
    spread = float(means.std())
    factor = estimate_score(matrix).error / spread if spread else 1.0
    return np.asarray(drawn + (factor - 1.0) * (means - float(matrix.mean())))


def percentile_interval(
    value: float,
    drawn: Drawn,
    degrees: float = math.inf,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    level: float = LEVEL,
) -> Interval:
    """Percentiles of the draws, their distance from the value stretched as a t distribution is to a normal one."""
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    stretch = float(stats.t.ppf((1 + level) / 2, degrees) / stats.norm.ppf((1 + level) / 2))
    low, high = np.clip(value + stretch * (ends - value), *bounds)
    return Interval(min(float(low), value), max(float(high), value))
