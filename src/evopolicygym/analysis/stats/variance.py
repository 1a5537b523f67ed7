"""Variance components: how much returns differ between runs, between cases, and by neither.

Runs and cases are crossed (see `estimates`). Each component is a difference of mean squares. Its interval is the
modified large-sample one of Ting et al. (1990), which is exact for a single mean square of normal returns, and is cut
at 0. Where cases show that squares vary more than those of normal returns, the degrees of freedom are lowered to match.
Components are reported as standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtri, fdtri

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, Interval, Number

TAIL = (1.0 - CONFIDENCE_LEVEL) / 2


@dataclass(frozen=True)
class MeanSquare:
    """A mean square, or a mean of several, with its degrees of freedom (Satterthwaite's for a mean)."""

    value: float
    degrees: float


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations between runs, between cases and of the rest, with 95 % intervals. ``shares`` are the parts of
    the three in the variance of a return, in the same order; None where nothing varied."""

    runs: Number
    cases: Number
    rest: Number
    shares: tuple[float, float, float] | None


@dataclass(frozen=True)
class _Squares:
    """Mean squares of one task in units of a variance of run means, of case means, and of single returns."""

    runs: MeanSquare
    runs_error: MeanSquare
    cases: MeanSquare
    cases_error: MeanSquare
    rest: MeanSquare


def variance_components(matrices: Sequence[tuple[Matrix, float]]) -> VarianceComponents | None:
    """Return the components of one entrant: on one task, or the mean of their squares over several tasks.

    Args:
        matrices: Returns (runs x cases) on each task, with the unit to express them in.

    Returns:
        The components; None where a task has one run or one case, or where there is no task.
    """
    if not matrices or any(min(matrix.shape) < 2 for matrix, _ in matrices):
        return None
    # Without the first return, equal ones leave no rounding errors behind.
    squares = [_squares((matrix - matrix[0, 0]) / unit) for matrix, unit in matrices]
    runs = _component([part.runs for part in squares], [part.runs_error for part in squares])
    cases = _component([part.cases for part in squares], [part.cases_error for part in squares])
    rest = _component([part.rest for part in squares], [])
    total = math.fsum(part.value for part in (runs, cases, rest))
    shares = (runs.value / total, cases.value / total, rest.value / total) if total else None
    return VarianceComponents(_deviation(runs), _deviation(cases), _deviation(rest), shares)


def _squares(matrix: Matrix) -> _Squares:
    runs, cases = matrix.shape
    by_run, by_case = matrix.mean(axis=1), matrix.mean(axis=0)
    residuals = matrix - by_run[:, None] - by_case[None, :] + matrix.mean()
    rest = _mean_square((residuals**2).sum(axis=0), (runs - 1) * (cases - 1))
    return _Squares(
        runs=MeanSquare(float(by_run.var(ddof=1)), runs - 1),
        runs_error=MeanSquare(rest.value / cases, rest.degrees),
        cases=_mean_square((by_case - by_case.mean()) ** 2, cases - 1),
        cases_error=MeanSquare(rest.value / runs, rest.degrees),
        rest=rest,
    )


def _mean_square(by_case: Matrix, degrees: int) -> MeanSquare:
    """Return the mean square of sums of squares by case. A mean square of normal returns has a variance of 2 / degrees
    of its square; where the sums vary more, it has fewer degrees of freedom."""
    value = float(by_case.sum()) / degrees
    variance = by_case.size * float(by_case.var(ddof=1)) / degrees**2
    return MeanSquare(value, min(degrees, max(2.0 * value**2 / variance, 1.0)) if variance else degrees)


def _component(above: Sequence[MeanSquare], below: Sequence[MeanSquare]) -> Number:
    """Return the mean of ``above`` minus the mean of ``below``, at least 0, with its interval; without one where
    nothing varied."""
    first, second = _mean(above), _mean(below) if below else None
    value = max(first.value - (second.value if second else 0.0), 0.0)
    if not first.value:
        return Number(value, None)
    low, high = _of_difference(first, second) if second and second.value else _of_one(first)
    return Number(value, Interval(min(max(low, 0.0), value), max(high, value)))


def _mean(squares: Sequence[MeanSquare]) -> MeanSquare:
    total = math.fsum(square.value for square in squares)
    uncertainty = math.fsum(square.value**2 / square.degrees for square in squares)
    degrees = total**2 / uncertainty if uncertainty else math.fsum(square.degrees for square in squares)
    return MeanSquare(total / len(squares), degrees)


def _of_one(square: MeanSquare) -> tuple[float, float]:
    degrees = square.degrees
    return square.value * degrees / _chi2(TAIL, degrees), square.value * degrees / _chi2(1 - TAIL, degrees)


def _of_difference(first: MeanSquare, second: MeanSquare) -> tuple[float, float]:
    """Return the interval of the expected first minus the expected second mean square: Ting et al. (1990)."""
    x, y, n, m = first.value, second.value, first.degrees, second.degrees
    g1, h1 = 1 - n / _chi2(TAIL, n), n / _chi2(1 - TAIL, n) - 1
    g2, h2 = 1 - m / _chi2(TAIL, m), m / _chi2(1 - TAIL, m) - 1
    upper, lower = float(fdtri(n, m, 1 - TAIL)), float(fdtri(n, m, TAIL))
    g12 = ((upper - 1) ** 2 - g1**2 * upper**2 - h2**2) / upper
    h12 = ((1 - lower) ** 2 - h1**2 * lower**2 - g2**2) / lower
    down = (g1 * x) ** 2 + (h2 * y) ** 2 + g12 * x * y
    up = (h1 * x) ** 2 + (g2 * y) ** 2 + h12 * x * y
    return x - y - math.sqrt(max(down, 0.0)), x - y + math.sqrt(max(up, 0.0))


def _chi2(upper_tail: float, degrees: float) -> float:
    return float(chdtri(degrees, upper_tail))


def _deviation(variance: Number) -> Number:
    interval = variance.interval
    ends = Interval(math.sqrt(interval.low), math.sqrt(interval.high)) if interval else None
    return Number(math.sqrt(variance.value), ends)
