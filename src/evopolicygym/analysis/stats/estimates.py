"""Estimates of mean returns, with their standard errors, from few runs on shared cases.

Runs and cases are crossed: every run of a task plays the same cases. A return is the sum of a mean, an effect of the
run, an effect of the case and a residual, so the variance of the grand mean is

    (variance between runs) / runs + (variance between cases) / cases + (residual variance) / (runs x cases).

Each term is estimated without bias from mean squares. Their sum has no exact distribution; a t distribution whose
degrees of freedom match its mean and variance (Satterthwaite 1946) is close. Hall's (1992) monotone transformation
corrects for skewness. Few runs only hint at skewness, so the correction is capped. One run shows nothing of how runs
differ: it gives no p-value, and an interval over cases alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t; importing scipy.stats takes 0.7 s longer

from evopolicygym.analysis.scores import Matrix, task_score
from evopolicygym.analysis.stats.hit_rates import t_quantile, wilson
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds

CONFIDENCE_LEVEL: Final = 0.95
FULL_SCOPE: Final = "runs and cases"
ONE_RUN: Final = "one run per cell: differences between runs are unknown"
MAX_SKEWNESS: Final = 0.1  # of the mean; chosen in benchmarks/coverage.py: more helps one-sided runs, harms two-sided


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float

    def clipped(self, bounds: Bounds) -> Interval:
        """Return the part of the interval that is possible."""
        return Interval(min(max(self.low, bounds.low), bounds.high), max(min(self.high, bounds.high), bounds.low))


@dataclass(frozen=True)
class Number:
    """A value with its 95 % interval, where there is one."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Estimate:
    """An estimated value and what its standard error is computed from.

    ``third_moment`` is the third central moment. ``variance_uncertainty`` is the squared variance over its degrees of
    freedom. Both add up over independent estimates, as the variance does. ``one_run`` counts the ``parts`` (tasks) with
    a single run, which show nothing of the variance between runs; ``one_case`` counts those with a single case.
    """

    value: float
    variance: float = 0.0
    third_moment: float = 0.0
    variance_uncertainty: float = 0.0
    parts: int = 1
    one_run: int = 0
    one_case: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of ``factor`` times the value."""
        powers = {"value": 1, "variance": 2, "third_moment": 3, "variance_uncertainty": 4}
        return replace(self, **{name: getattr(self, name) * factor**power for name, power in powers.items()})

    def shifted(self, constant: float) -> Estimate:
        """Return the estimate of the value plus ``constant``."""
        return replace(self, value=self.value + constant)

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance)

    @property
    def degrees_of_freedom(self) -> float:
        """Satterthwaite's, at least 1: subtracted components can make the quotient meaninglessly small."""
        if not self.variance_uncertainty:
            return math.inf
        return max(float(self.variance**2 / self.variance_uncertainty), 1.0)

    @property
    def has_error(self) -> bool:
        """Whether the runs and cases show anything of the error: False for a single number on each task."""
        return min(self.one_run, self.one_case) < self.parts

    @property
    def varies(self) -> bool:
        """Whether anything varied beyond rounding: equal returns prove nothing about others."""
        return self.standard_error > 1e-12 * max(abs(self.value), 1.0)

    def interval(self, level: float = CONFIDENCE_LEVEL) -> Interval | None:
        """Return the confidence interval, or None when the error is unknown."""
        if not self.has_error:
            return None
        reach = float(stdtrit(self.degrees_of_freedom, (1 + level) / 2))
        skewness = self._skewness()
        low, high = _untransformed(-reach, skewness), _untransformed(reach, skewness)
        return Interval(self.value - self.standard_error * high, self.value - self.standard_error * low)

    def p_value(self) -> float | None:
        """Return the two-sided p-value of a true value of 0, by the distribution of ``interval``. None where a part has
        one run: how much runs differ is unknown."""
        if self.one_run or not self.has_error:
            return None
        if not self.variance:
            return 1.0 if self.value == 0.0 else 0.0
        t = _transformed(self.value / self.standard_error, self._skewness())
        return float(2.0 * stdtr(self.degrees_of_freedom, -abs(t)))

    def _skewness(self) -> float:
        if not self.variance:
            return 0.0
        return min(max(self.third_moment / self.standard_error**3, -MAX_SKEWNESS), MAX_SKEWNESS)

    @property
    def scope(self) -> str:
        """Describe what the interval covers: other runs and cases, or only one of the two."""
        if not self.has_error:
            return "no interval: one number on each task"
        limits = [_limit_of_scope(self.one_run, self.parts, "cases only", "one run")]
        limits += [_limit_of_scope(self.one_case, self.parts, "runs only", "one case")]
        parts = [limit for limit in limits if limit] or [FULL_SCOPE]
        return "; ".join(parts if self.variance else [*parts, "nothing varied"])


def contrast(weighted: Sequence[tuple[float, Matrix]]) -> Estimate:
    """Estimate a weighted sum of task scores (runs x cases each) on the same cases: a score, or a paired difference."""
    return _estimate(weighted, [_run_variance(weight, matrix) for weight, matrix in weighted])


def _estimate(weighted: Sequence[tuple[float, Matrix]], parts: Sequence[_RunVariance]) -> Estimate:
    """Estimate a weighted sum of task scores, with these variances of their runs."""
    by_case = np.asarray(sum(weight * matrix.mean(axis=0) for weight, matrix in weighted))
    cases = by_case.size
    between_cases = float(by_case.var(ddof=1)) / cases if cases > 1 else 0.0
    between_runs = math.fsum(part.between_runs for part in parts)
    residual = math.fsum(part.residual for part in parts)
    case_uncertainty = between_cases**2 / (cases - 1) if cases > 1 else 0.0
    return Estimate(
        value=math.fsum(weight * task_score(matrix) for weight, matrix in weighted),
        variance=max(between_runs + between_cases - residual, residual),
        third_moment=math.fsum(part.third_moment for part in parts) + third_moment(by_case) / cases**2,
        variance_uncertainty=math.fsum(part.variance_uncertainty for part in parts) + case_uncertainty,
        one_run=int(any(matrix.shape[0] == 1 for _, matrix in weighted)),
        one_case=int(cases == 1),
    )


def estimate_score(matrix: Matrix) -> Estimate:
    """Estimate the task score of one entrant from runs x cases."""
    return contrast([(1.0, matrix)])


def estimate_difference(first: Matrix, second: Matrix) -> Estimate:
    """Estimate the task score of the first minus that of the second, paired by case.

    The side with fewer runs is taken to vary at least as much as the other: two or three runs of an entrant with two
    modes often agree, and beside ten of the other their difference would seem sure.
    """
    weighted = [(1.0, first), (-1.0, second)]
    parts = [_run_variance(weight, matrix) for weight, matrix in weighted]
    fewer, more = (0, 1) if len(first) < len(second) else (1, 0)
    runs = (len(weighted[fewer][1]), len(weighted[more][1]))
    if 1 < runs[0] < runs[1]:
        borrowed = parts[more].with_runs(*reversed(runs))
        if borrowed.between_runs > parts[fewer].between_runs:
            parts[fewer] = replace(borrowed, third_moment=parts[fewer].third_moment)
    return _estimate(weighted, parts)


def difference_p_value(first: Matrix, second: Matrix) -> float | None:
    """Return the p-value of equal task scores; None with one run of an entrant.

    It is at least the chance that all runs of one entrant succeed and all of the other fail when both succeed every
    second time: runs that do not vary by themselves prove no more. Two runs prove no more than against two.
    """
    p_value = estimate_difference(first, second).p_value()
    runs = 4 if min(len(first), len(second)) == 2 else len(first) + len(second)
    return None if p_value is None else max(p_value, 2.0 ** (1 - runs))


def correlation_by_case(first: Matrix, second: Matrix) -> float | None:
    """Return Pearson's correlation of two entrants over cases. By sums: machines round matrix products differently."""
    by_case = [matrix.mean(axis=0) for matrix in (first, second)]
    if by_case[0].size < 3 or not all(np.ptp(means) for means in by_case):
        return None
    x, y = ((means - means.mean()) / np.ptp(means) for means in by_case)
    return float((x * y).sum()) / math.sqrt(float((x * x).sum()) * float((y * y).sum()))


def score_interval(matrix: Matrix, bounds: Bounds = UNBOUNDED) -> Interval | None:
    """Return the interval of a task score within the possible returns; None where the error is unknown, and where
    nothing varied. Where all returns are at one of the two bounds, or are 0 or 1, it is that of a success rate."""
    low, high = (bounds.low, bounds.high) if math.isfinite(bounds.high - bounds.low) else (0.0, 1.0)
    if bool(np.isin(matrix, (low, high)).all()):
        interval = success_interval((matrix - low) / (high - low))
        return Interval(low + (high - low) * interval.low, low + (high - low) * interval.high)
    estimate = estimate_score(matrix)
    interval_of_mean = estimate.interval() if estimate.variance else None
    return interval_of_mean.clipped(bounds) if interval_of_mean else None


def success_interval(successes: Matrix) -> Interval:
    """Return Wilson's interval of a success rate from runs x cases of 0 and 1, with the effective number of episodes:
    episodes of one run, and on one case, are alike."""
    rate, episodes = float(successes.mean()), successes.size
    variance = estimate_score(successes).variance
    effective = min(max(rate * (1 - rate) / variance, 1.0), episodes) if variance and 0 < rate < 1 else episodes
    return Interval(*wilson(rate, effective, t_quantile(len(successes) - 1)))


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the macro-mean of independent estimates, such as those of several tasks."""
    total = reduce(Estimate.__add__, estimates).scaled(1.0 / len(estimates))
    return replace(total, value=math.fsum(estimate.value for estimate in estimates) / len(estimates))


@dataclass(frozen=True)
class _RunVariance:
    """Variance that the runs of one entrant contribute: between runs, and the residual that both margins count."""

    between_runs: float
    residual: float
    variance_uncertainty: float
    third_moment: float

    def with_runs(self, runs: int, others: int) -> _RunVariance:
        """Return what another entrant with ``others`` runs contributes that varies like this one with ``runs``."""
        factor = runs / others
        return _RunVariance(
            self.between_runs * factor,
            self.residual * factor,
            self.variance_uncertainty * factor**2,
            self.third_moment * factor**2,
        )


def _run_variance(weight: float, matrix: Matrix) -> _RunVariance:
    runs, cases = matrix.shape
    if runs == 1:
        return _RunVariance(0.0, 0.0, 0.0, 0.0)
    by_run = matrix.mean(axis=1)
    between = weight**2 * float(by_run.var(ddof=1)) / runs
    residual = weight**2 * residual_mean_square(matrix) / (runs * cases)
    uncertainty = between**2 / (runs - 1) + residual**2 / ((runs - 1) * max(cases - 1, 1))
    return _RunVariance(between, residual, uncertainty, weight**3 * third_moment(by_run) / runs**2)


def residual_mean_square(matrix: Matrix) -> float:
    """Return the mean square of what neither run nor case explains; 0 for a single run or a single case."""
    runs, cases = matrix.shape
    residuals = matrix - matrix.mean(axis=1, keepdims=True) - matrix.mean(axis=0, keepdims=True) + matrix.mean()
    freedom = (runs - 1) * (cases - 1)
    return float((residuals**2).sum()) / freedom if freedom else 0.0


def third_moment(values: Matrix) -> float:
    """Return the unbiased third moment about the mean; 0 for fewer than three values."""
    count = values.size
    if count < 3:
        return 0.0
    deviations = values - values.mean()
    # Not ** 3: numpy rounds powers differently on machines with AVX-512.
    return float((deviations * deviations * deviations).sum()) * count / ((count - 1) * (count - 2))


def _transformed(score: float, skewness: float) -> float:
    """Apply Hall's transformation."""
    return score + skewness * score**2 / 3 + skewness**2 * score**3 / 27 + skewness / 6


def _untransformed(score: float, skewness: float) -> float:
    if abs(skewness) < 1e-9:
        return score
    return (math.cbrt(1 + skewness * (score - skewness / 6)) - 1) * 3 / skewness  # np.cbrt: see third_moment


def _limit_of_scope(count: int, parts: int, scope: str, reason: str) -> str:
    if not count:
        return ""
    return f"{scope}: {reason}" if count == parts else f"{scope} in {count} of {parts} tasks: {reason}"
