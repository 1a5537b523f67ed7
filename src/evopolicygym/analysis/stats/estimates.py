"""A mean over runs and cases, with what is known of its error, from few runs.

Runs and cases are crossed: every run of a task plays the same cases. So a return is a mean, plus what the run is
better than others, plus what the case is easier than others, plus the rest, and the variance of the grand mean is

    (variance between runs) / runs + (variance between cases) / cases + (variance of the rest) / (runs x cases).

Each is estimated without bias from mean squares. Their sum has no exact distribution; a t distribution whose degrees of
freedom match its mean and variance (Satterthwaite 1946) is close. Hall's (1992) monotone transformation corrects for
skewness, which few runs can only hint at, so the correction is capped. docs/statistics.md has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
from scipy import stats

from evopolicygym.analysis.scores import Matrix, task_score

LEVEL: Final = 0.95
FULL_SCOPE: Final = "runs and cases"
MAX_SKEWNESS: Final = 0.1  # of the mean; chosen in benchmarks/coverage.py: more helps one-sided runs, harms two-sided


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """``third`` is the third central moment, ``wobble`` the variance squared over its degrees of freedom: both add up
    over independent estimates, as the variance does. ``one_run`` of the ``parts`` have a single run, ``one_case`` a
    single case, and so show nothing of the variance between runs or cases."""

    value: float
    variance: float = 0.0
    third: float = 0.0
    wobble: float = 0.0
    parts: int = 1
    one_run: int = 0
    one_case: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def scaled(self, factor: float) -> Estimate:
        powers = {"value": 1, "variance": 2, "third": 3, "wobble": 4}
        return replace(self, **{name: getattr(self, name) * factor**power for name, power in powers.items()})

    def shifted(self, constant: float) -> Estimate:
        return replace(self, value=self.value + constant)

    @property
    def error(self) -> float:
        return math.sqrt(self.variance)

    @property
    def degrees(self) -> float:
        """At least 1: what is subtracted from a variance can make the quotient meaninglessly small."""
        return max(float(self.variance**2 / self.wobble), 1.0) if self.wobble else math.inf

    @property
    def known(self) -> bool:
        """Whether anything is known of the error."""
        return min(self.one_run, self.one_case) < self.parts

    def interval(self, level: float = LEVEL) -> Interval | None:
        """None when there is nothing to learn the error from."""
        if not self.known:
            return None
        reach = float(stats.t.ppf((1 + level) / 2, self.degrees))
        skewness = self._skewness()
        low, high = _untransformed(-reach, skewness), _untransformed(reach, skewness)
        return Interval(self.value - self.error * high, self.value - self.error * low)

    def p_value(self) -> float | None:
        """Of the hypothesis that the true value is 0; two-sided, and the interval's own: it agrees with it."""
        if not self.known:
            return None
        if not self.variance:
            return 1.0 if self.value == 0.0 else 0.0
        score = _transformed(self.value / self.error, self._skewness())
        return float(2.0 * stats.t.sf(abs(score), self.degrees))

    def _skewness(self) -> float:
        if not self.variance:
            return 0.0
        return min(max(self.third / self.error**3, -MAX_SKEWNESS), MAX_SKEWNESS)

    @property
    def scope(self) -> str:
        """What the interval is about, in words."""
        if not self.known:
            return "no interval: one number on each task"
        blind = [_blind(self.one_run, self.parts, "cases only", "one run")]
        blind += [_blind(self.one_case, self.parts, "runs only", "one case")]
        told = [part for part in blind if part] or [FULL_SCOPE]
        return "; ".join(told if self.variance else [*told, "nothing varied"])


def contrast(weighted: Sequence[tuple[float, Matrix]]) -> Estimate:
    """A weighted sum of task scores (runs x cases each) on the same cases: one score, or a paired difference."""
    parts = [_runs_part(weight, matrix) for weight, matrix in weighted]
    by_case = np.asarray(sum(weight * matrix.mean(axis=0) for weight, matrix in weighted))
    cases = by_case.size
    between_cases = float(by_case.var(ddof=1)) / cases if cases > 1 else 0.0
    runs, rest = math.fsum(part.runs for part in parts), math.fsum(part.rest for part in parts)
    wobble = math.fsum(part.wobble for part in parts) + (between_cases**2 / (cases - 1) if cases > 1 else 0.0)
    return Estimate(
        value=math.fsum(weight * task_score(matrix) for weight, matrix in weighted),
        variance=max(runs + between_cases - rest, rest),
        third=math.fsum(part.third for part in parts) + third_moment(by_case) / cases**2,
        wobble=wobble,
        one_run=int(any(matrix.shape[0] == 1 for _, matrix in weighted)),
        one_case=int(cases == 1),
    )


def estimate_score(matrix: Matrix) -> Estimate:
    return contrast([(1.0, matrix)])


def estimate_difference(first: Matrix, second: Matrix) -> Estimate:
    return contrast([(1.0, first), (-1.0, second)])


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Macro-mean of independent estimates, such as those of several tasks."""
    total = reduce(Estimate.__add__, estimates).scaled(1.0 / len(estimates))
    return replace(total, value=math.fsum(one.value for one in estimates) / len(estimates))


@dataclass(frozen=True)
class _RunsPart:
    """What the runs of one entrant add to variance: between runs, and the rest that both margins count."""

    runs: float
    rest: float
    wobble: float
    third: float


def _runs_part(weight: float, matrix: Matrix) -> _RunsPart:
    runs, cases = matrix.shape
    if runs == 1:
        return _RunsPart(0.0, 0.0, 0.0, 0.0)
    by_run = matrix.mean(axis=1)
    between = weight**2 * float(by_run.var(ddof=1)) / runs
    rest = weight**2 * residual_mean_square(matrix) / (runs * cases)
    wobble = between**2 / (runs - 1) + rest**2 / ((runs - 1) * max(cases - 1, 1))
    return _RunsPart(between, rest, wobble, weight**3 * third_moment(by_run) / runs**2)


def residual_mean_square(matrix: Matrix) -> float:
    """Of what neither the run nor the case explains. 0 where one run or one case leaves nothing to see it by."""
    runs, cases = matrix.shape
    rest = matrix - matrix.mean(axis=1, keepdims=True) - matrix.mean(axis=0, keepdims=True) + matrix.mean()
    freedom = (runs - 1) * (cases - 1)
    return float((rest**2).sum()) / freedom if freedom else 0.0


def third_moment(values: Matrix) -> float:
    """About the mean, unbiased; 0 where three values are not there."""
    count = values.size
    if count < 3:
        return 0.0
    return float(((values - values.mean()) ** 3).sum()) * count / ((count - 1) * (count - 2))


def _transformed(score: float, skewness: float) -> float:
    return score + skewness * score**2 / 3 + skewness**2 * score**3 / 27 + skewness / 6


def _untransformed(score: float, skewness: float) -> float:
    if abs(skewness) < 1e-9:
        return score
    return float(np.cbrt(1 + skewness * (score - skewness / 6)) - 1) * 3 / skewness


def _blind(count: int, parts: int, sees: str, because: str) -> str:
    if not count:
        return ""
    return f"{sees}: {because}" if count == parts else f"{sees} in {count} of {parts} tasks: {because}"
