"""Power analysis: how many runs, or tasks, find a difference of interest with a probability of 80 %.

The plan is for an effect that the user names, not for the observed difference: that one is what chance made of it. The
variances are estimates from few runs. Each plan is therefore a range, over the 80 % intervals of the variances. The
power on a task is that of the printed test, whose degrees of freedom are estimated, too: it is averaged over seeded
draws of the mean squares. `benchmarks/coverage.py` measures planned experiments against their promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import gammaincinv, nctdtr, ndtr, stdtrit

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.by_task import vary
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, residual_mean_square

POWER: Final = 0.8
EFFECT: Final = 0.05  # of the normalisation scale: the default of the smallest difference of interest
CERTAINTY: Final = 0.8  # of the intervals of variances
MOST: Final = 1000  # runs, or tasks
FEWEST_RUNS: Final = 3  # two runs of each side can never give p < 0.05
ALPHA: Final = 1.0 - CONFIDENCE_LEVEL
DRAWS: Final = 400
SEED: Final = 20_260_702
TINY: Final = float(np.finfo(float).tiny) ** 0.5  # its square does not vanish


@dataclass(frozen=True)
class SideVariance:
    """Variances of one entrant on one task, between its runs and of the residual, from ``degrees`` + 1 runs."""

    runs: float
    residual: float
    degrees: int

    def scaled(self, factor: float) -> SideVariance:
        return replace(self, runs=self.runs * factor, residual=self.residual * factor)


@dataclass(frozen=True)
class DifferenceVariance:
    """Variances of the difference of two entrants on one task. ``cases`` is between the differences by case."""

    first: SideVariance
    second: SideVariance
    cases: float

    def scaled(self, factor: float) -> DifferenceVariance:
        return DifferenceVariance(self.first.scaled(factor), self.second.scaled(factor), self.cases * factor)

    def shows(self, effect: float) -> bool:
        """Whether the runs differ at all: equal runs say nothing about how many more are needed."""
        total = self.first.runs + self.first.residual + self.second.runs + self.second.residual
        return total > (1e-9 * effect) ** 2

    def at_limit(self, share: float) -> DifferenceVariance:
        """Return the variances of runs at a limit of their intervals: a true variance is above it with probability
        1 - ``share``."""
        first, second = (
            side.scaled(side.degrees / _chi2_quantile(1 - share, side.degrees)) for side in (self.first, self.second)
        )
        return DifferenceVariance(first, second, self.cases)


@dataclass(frozen=True)
class RunsNeeded:
    """Runs of each entrant that find the effect on one task with a probability of 80 %, with so many cases: ``runs``
    if the variances are as estimated, ``low`` and ``high`` over their intervals. None: more than 1,000."""

    cases: int
    low: int | None
    runs: int | None
    high: int | None


@dataclass(frozen=True)
class TasksNeeded:
    """Tasks, with as many runs as now, that find the effect over tasks with a probability of 80 %."""

    low: int | None
    tasks: int | None
    high: int | None


def difference_variance(first: Matrix, second: Matrix) -> DifferenceVariance | None:
    """Estimate the variances; None when an entrant has one run, which cannot show how much its runs differ."""
    if min(len(first), len(second)) < 2 or first.shape[1] < 2:
        return None
    sides = [_side(matrix) for matrix in (first, second)]
    by_case = float((first.mean(axis=0) - second.mean(axis=0)).var(ddof=1))
    residuals = sum(side.residual / len(matrix) for side, matrix in zip(sides, (first, second), strict=True))
    return DifferenceVariance(sides[0], sides[1], max(by_case - residuals, 0.0))


def _side(matrix: Matrix) -> SideVariance:
    residual = residual_mean_square(matrix)
    between = float(matrix.mean(axis=1).var(ddof=1)) - residual / matrix.shape[1]
    return SideVariance(max(between, 0.0), residual, len(matrix) - 1)


def runs_needed(effect: float, parts: DifferenceVariance, cases: int) -> RunsNeeded:
    """Return the fewest runs of each entrant that find the effect on a task with so many cases."""

    def fewest(variance: DifferenceVariance) -> int | None:
        return _fewest(lambda runs: power(effect, variance, runs, cases), FEWEST_RUNS)

    limits = ((1 - CERTAINTY) / 2, (1 + CERTAINTY) / 2)
    return RunsNeeded(cases, fewest(parts.at_limit(limits[0])), fewest(parts), fewest(parts.at_limit(limits[1])))


def power(effect: float, parts: DifferenceVariance, runs: int, cases: int) -> float:
    """Return the power of the two-sided test at 5 % on one task, with so many runs of each entrant."""
    if 2.0 ** (1 - 2 * runs) > ALPHA:
        return 0.0
    sides, degrees = (parts.first, parts.second), (runs - 1) * (cases - 1)
    residual = math.fsum(side.residual for side in sides) / (runs * cases)
    error = math.sqrt(max(math.fsum(side.runs for side in sides) / runs + parts.cases / cases + residual, TINY))
    generator = np.random.default_rng(SEED)
    by_run = [_drawn_square((side.runs + side.residual / cases) / runs, runs - 1, generator) for side in sides]
    rest = [_drawn_square(side.residual / (runs * cases), degrees, generator) for side in sides]
    by_case = _drawn_square(parts.cases / cases + residual, cases - 1, generator)
    # As in `estimates.contrast`: the residual is part of both margins, and counted once.
    variance = np.maximum(sum(by_run) + by_case - sum(rest), np.maximum(sum(rest), TINY))
    uncertainty = sum(square**2 for square in by_run) / (runs - 1) + sum(square**2 for square in rest) / degrees
    freedom = np.maximum(variance**2 / np.maximum(uncertainty + by_case**2 / (cases - 1), TINY**2), 1.0)
    reach = stdtrit(freedom, 1 - ALPHA / 2) * np.sqrt(variance)
    return float((ndtr((effect - reach) / error) + ndtr((-effect - reach) / error)).mean())


def _drawn_square(expected: float, degrees: int, generator: np.random.Generator) -> Matrix:
    """Draw a mean square with this expectation."""
    return np.asarray(expected * generator.chisquare(degrees, DRAWS) / degrees)


def tasks_needed(effect: float, differences: Sequence[float]) -> TasksNeeded | None:
    """Return the fewest tasks on which the paired t test over tasks finds the effect; None for a single task, and where
    all differences are equal."""
    count = len(differences)
    if not vary(differences):
        return None
    variance = float(np.var(differences, ddof=1))

    def fewest(share: float | None) -> int | None:
        factor = 1.0 if share is None else (count - 1) / _chi2_quantile(1 - share, count - 1)
        return _fewest(lambda tasks: power_over_tasks(effect, variance * factor, tasks), 2)

    return TasksNeeded(fewest((1 - CERTAINTY) / 2), fewest(None), fewest((1 + CERTAINTY) / 2))


def power_over_tasks(effect: float, variance: float, tasks: int) -> float:
    """Return the power of the paired t test over tasks whose differences have this variance."""
    if 2.0 ** (1 - tasks) > ALPHA:
        return 0.0
    return _power_of_t(effect, max(variance / tasks, TINY), tasks - 1)


def _power_of_t(effect: float, variance: float, degrees: float) -> float:
    shift = min(abs(effect) / float(np.sqrt(variance)), 37.0)  # beyond, the distribution overflows
    reach = float(stdtrit(degrees, 1 - ALPHA / 2))
    power = 1.0 - float(nctdtr(degrees, shift, reach)) + float(nctdtr(degrees, shift, -reach))
    return 1.0 if np.isnan(power) else power


def _chi2_quantile(share: float, degrees: int) -> float:
    return 2.0 * float(gammaincinv(degrees / 2, share))


def _fewest(power_of: Callable[[int], float], fewest: int) -> int | None:
    """Return the smallest number with enough power, by bisection: power grows with the number."""
    low, high = fewest - 1, fewest
    while power_of(high) < POWER:
        if high == MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle) >= POWER else (middle, high)
    return high
