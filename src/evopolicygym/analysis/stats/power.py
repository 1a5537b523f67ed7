"""How many runs and cases would separate two entrants, if their true difference is the one that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import LEVEL, residual_mean_square

POWER: Final = 0.8
CASES: Final = (32, 64, 128, 256)
MOST_RUNS: Final = 1000
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class VarianceComponents:
    """Of the variance of a paired difference: between runs, between cases, and the rest. Never below 0."""

    runs: float
    cases: float
    rest: float

    def __add__(self, other: VarianceComponents) -> VarianceComponents:
        return VarianceComponents(self.runs + other.runs, self.cases + other.cases, self.rest + other.rest)

    def scaled(self, factor: float) -> VarianceComponents:
        return VarianceComponents(self.runs * factor, self.cases * factor, self.rest * factor)

    def split(self, runs: Counts, cases: int) -> tuple[NDArray[np.float64], float]:
        """The variance of the mean that runs bring, with that many of each entrant, and the one that cases bring."""
        return np.asarray((self.runs + self.rest / cases) / runs), self.cases / cases


@dataclass(frozen=True)
class RunsNeeded:
    """``runs`` of each entrant on each task; null when no number up to 1,000 is enough with so few cases."""

    cases: int
    runs: int | None


def variance_components(first: Matrix, second: Matrix) -> VarianceComponents | None:
    """None when an entrant has one run: nothing shows how much its runs differ."""
    if min(len(first), len(second)) < 2 or first.shape[1] < 2:
        return None
    sides = (first, second)
    rest = [residual_mean_square(matrix) for matrix in sides]
    runs = [
        float(matrix.mean(axis=1).var(ddof=1)) - left / matrix.shape[1]
        for matrix, left in zip(sides, rest, strict=True)
    ]
    by_case = float((first.mean(axis=0) - second.mean(axis=0)).var(ddof=1))
    cases = by_case - sum(left / len(matrix) for matrix, left in zip(sides, rest, strict=True))
    return VarianceComponents(sum(max(value, 0.0) for value in runs), max(cases, 0.0), sum(rest))


def runs_needed(difference: float, parts: VarianceComponents, tasks: int = 1) -> tuple[RunsNeeded, ...]:
    """For each number of cases the fewest runs that find the difference with a probability of 80 %."""
    return tuple(RunsNeeded(cases, _fewest(difference, parts, cases, tasks)) for cases in CASES)


def power(
    difference: float, parts: VarianceComponents, runs: Sequence[int], cases: int, tasks: int = 1
) -> NDArray[np.float64]:
    """Of the two-sided test at 5 %, with Satterthwaite's degrees of freedom, as if the tasks were alike."""
    counts = np.asarray(runs, dtype=np.int64)
    by_runs, by_cases = parts.split(counts, cases)
    variance = np.maximum(by_runs + by_cases, np.finfo(float).tiny)
    wobble = by_runs**2 / (2 * (counts - 1)) + by_cases**2 / (cases - 1)
    degrees = tasks * variance**2 / np.maximum(wobble, np.finfo(float).tiny)
    reach = stats.t.ppf((1 + LEVEL) / 2, degrees)
    return np.asarray(stats.t.cdf(abs(difference) / np.sqrt(variance) - reach, degrees))


def _fewest(difference: float, parts: VarianceComponents, cases: int, tasks: int) -> int | None:
    counts = range(2, MOST_RUNS + 1)
    enough = power(difference, parts, counts, cases, tasks) >= POWER
    return counts[int(enough.argmax())] if difference and enough.any() else None
