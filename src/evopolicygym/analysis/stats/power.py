"""Power analysis: how many runs and cases separate two entrants whose true difference is the observed one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, residual_mean_square

POWER: Final = 0.8
CASES: Final = (32, 64, 128, 256)
MOST_RUNS: Final = 1000
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class VarianceComponents:
    """Variance components of a paired difference: between runs, between cases, and the residual. Never below 0."""

    runs: float
    cases: float
    residual: float

    def __add__(self, other: VarianceComponents) -> VarianceComponents:
        return VarianceComponents(self.runs + other.runs, self.cases + other.cases, self.residual + other.residual)

    def scaled(self, factor: float) -> VarianceComponents:
        return VarianceComponents(self.runs * factor, self.cases * factor, self.residual * factor)

    def split(self, runs: Counts, cases: int) -> tuple[NDArray[np.float64], float]:
        """Return the variance of the mean that comes from runs, with so many of each entrant, and from cases."""
        return np.asarray((self.runs + self.residual / cases) / runs), self.cases / cases


@dataclass(frozen=True)
class RunsNeeded:
    """Runs needed of each entrant on each task; None when no number up to 1,000 is enough with so few cases."""

    cases: int
    runs: int | None


def variance_components(first: Matrix, second: Matrix) -> VarianceComponents | None:
    """Estimate the components; None when an entrant has one run, which cannot show how much its runs differ."""
    if min(len(first), len(second)) < 2 or first.shape[1] < 2:
        return None
    matrices = (first, second)
    residuals = [residual_mean_square(matrix) for matrix in matrices]
    runs = [
        float(matrix.mean(axis=1).var(ddof=1)) - residual / matrix.shape[1]
        for matrix, residual in zip(matrices, residuals, strict=True)
    ]
    by_case = float((first.mean(axis=0) - second.mean(axis=0)).var(ddof=1))
    cases = by_case - sum(residual / len(matrix) for matrix, residual in zip(matrices, residuals, strict=True))
    return VarianceComponents(sum(max(value, 0.0) for value in runs), max(cases, 0.0), sum(residuals))


def runs_needed(difference: float, parts: VarianceComponents, tasks: int = 1) -> tuple[RunsNeeded, ...]:
    """Return for each number of cases the fewest runs that detect the difference with a probability of 80 %."""
    return tuple(RunsNeeded(cases, _fewest(difference, parts, cases, tasks)) for cases in CASES)


def power(
    difference: float, parts: VarianceComponents, runs: Sequence[int], cases: int, tasks: int = 1
) -> NDArray[np.float64]:
    """Return the power of the two-sided test at 5 %, with Satterthwaite's degrees of freedom as if tasks were alike."""
    counts = np.asarray(runs, dtype=np.int64)
    by_runs, by_cases = parts.split(counts, cases)
    variance = np.maximum(by_runs + by_cases, np.finfo(float).tiny)
    uncertainty = by_runs**2 / (2 * (counts - 1)) + by_cases**2 / (cases - 1)
    degrees = tasks * variance**2 / np.maximum(uncertainty, np.finfo(float).tiny)
    reach = stdtrit(degrees, (1 + CONFIDENCE_LEVEL) / 2)
    return np.asarray(stdtr(degrees, abs(difference) / np.sqrt(variance) - reach))


def _fewest(difference: float, parts: VarianceComponents, cases: int, tasks: int) -> int | None:
    counts = range(2, MOST_RUNS + 1)
    enough = power(difference, parts, counts, cases, tasks) >= POWER
    return counts[int(enough.argmax())] if difference and enough.any() else None
