"""Statistics over tasks: one number per task and entrant, and the tasks are the sample.

They need no repeated runs: what differs between runs of an entrant is part of what differs between tasks. They answer
how entrants would compare on other tasks like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr, stdtr, stdtrit

from evopolicygym.analysis.scores import mean
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, Interval, Number
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds


@dataclass(frozen=True)
class PairedTest:
    """Two entrants compared by their scores on the same ``tasks``.

    ``difference`` is the mean of first minus second, with Student's t interval over tasks. ``p`` is that of the paired
    t test. ``won`` and ``lost`` count tasks, and ``p_sign`` is that of the sign test. All are None with one task; there
    is no interval where all differences are equal.
    """

    tasks: int
    difference: Number
    p: float | None
    won: int
    lost: int
    p_sign: float | None


@dataclass(frozen=True)
class EntrantDifference:
    """Score of the first entrant minus the second, with tasks as the sample. ``p_holm`` is corrected over all pairs of
    the table."""

    first: str
    second: str
    test: PairedTest
    p_holm: float | None


def compare_by_task(first: Sequence[float], second: Sequence[float], bounds: Bounds = UNBOUNDED) -> PairedTest:
    """Compare two entrants that have one score on each task, in units that tasks share. ``bounds``: of scores."""
    differences = [mine - theirs for mine, theirs in zip(first, second, strict=True)]
    won, lost = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    count = len(differences)
    if count < 2:
        return PairedTest(count, Number(mean(differences), None), None, won, lost, None)
    number = mean_over_tasks(differences)
    interval = number.interval.clipped(bounds.of_difference) if number.interval else None
    return PairedTest(count, Number(number.value, interval), _paired_p(differences), won, lost, sign_test(won, lost))


def sign_test(won: int, lost: int) -> float:
    """Return the two-sided p-value of the sign test; ties are left out."""
    return min(2.0 * float(bdtr(min(won, lost), won + lost, 0.5)), 1.0)


def mean_over_tasks(values: Sequence[float]) -> Number:
    """Return the mean of one number per task, with Student's t interval over tasks; None for a single task, and where
    all numbers are equal: they show nothing of how tasks differ."""
    value = mean(values)
    if not vary(values):
        return Number(value, None)
    error = _deviation(values) / math.sqrt(len(values))
    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE_LEVEL) / 2)) * error
    return Number(value, Interval(value - reach, value + reach))


def vary(values: Sequence[float]) -> bool:
    """Return whether numbers differ by more than rounding."""
    return len(values) > 1 and max(values) - min(values) > 1e-12 * max(map(abs, values))


def bounded_mean(values: Sequence[float]) -> Number:
    """Return the mean of numbers from 0 to 1, one per task, with an interval over tasks.

    Two imaginary tasks, one at 0 and one at 1, are added for the interval: without them, an entrant that wins every
    task would get an interval of no width.
    """
    interval = mean_over_tasks([*values, 0.0, 1.0]).interval
    assert interval is not None
    value = mean(values)
    return Number(value, Interval(min(max(interval.low, 0.0), value), max(min(interval.high, 1.0), value)))


def _paired_p(differences: Sequence[float]) -> float:
    """Return the p-value of the paired t test. It is at least that of differences that all have one sign: a few tasks
    with equal differences prove no more."""
    least = 2.0 ** (1 - len(differences))
    deviation, value = _deviation(differences), mean(differences)
    if value == 0.0:
        return 1.0
    if deviation == 0.0:
        return least
    t = value / deviation * math.sqrt(len(differences))
    return max(float(2.0 * stdtr(len(differences) - 1, -abs(t))), least)


def _deviation(values: Sequence[float]) -> float:
    value = mean(values)
    return math.sqrt(math.fsum((other - value) ** 2 for other in values) / (len(values) - 1))
