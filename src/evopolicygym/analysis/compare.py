"""Two entrants on the same cases: paired differences on each task and overall, corrected for how many are asked."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from evopolicygym.analysis.leaderboard.aggregates import Number
from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.sides import Shared, Side, shared
from evopolicygym.analysis.stats.aggregates import probability_of_improvement
from evopolicygym.analysis.stats.bootstrap import DRAWS, SEED, draw, percentile_interval
from evopolicygym.analysis.stats.coverage import Coverage, coverage
from evopolicygym.analysis.stats.estimates import Estimate, average, difference, score
from evopolicygym.analysis.stats.power import Components, Plan, components, plans
from evopolicygym.reference.scale import scales


@dataclass(frozen=True)
class Difference:
    """First minus second. ``p_holm`` is ``p`` corrected for the other tasks, or overall for the other pairs."""

    value: Number
    scope: str
    coverage: Coverage | None
    p: float | None
    p_holm: float | None
    p_improvement: Number
    plans: tuple[Plan, ...] | None


@dataclass(frozen=True)
class TaskComparison:
    """``correlation`` is that of the two by case. ``pairing_gain``: how many times the variance would be as large if
    the two had been measured on different cases."""

    task: str
    comparable_id: str
    cases: int
    runs: tuple[int, int]
    scores: tuple[float, float]
    correlation: float | None
    pairing_gain: float | None
    difference: Difference


@dataclass(frozen=True)
class Pair:
    """``overall`` is the mean difference of normalised scores over the tasks that have a scale."""

    first: str
    second: str
    tasks: tuple[TaskComparison, ...]
    normalised_tasks: int
    overall: Difference | None
    not_compared: dict[str, str]


def compare(sides: Sequence[Side], draws: int = DRAWS) -> list[Pair]:
    """All pairs, in the order of the sides."""
    found = [_pair(first, second, draws) for first, second in combinations(sides, 2)]
    corrected = holm([pair.overall.p if pair.overall else None for pair in found])
    return [_with_overall(pair, value) for pair, value in zip(found, corrected, strict=True)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down correction; what is unknown is not counted."""
    known = sorted((value, i) for i, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for place, (value, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - place) * value))
        corrected[i] = highest
    return corrected


def _pair(first: Side, second: Side, draws: int) -> Pair:
    common, not_compared = shared(first, second)
    compared = [_compared(one, draws) for one in common]
    corrected = holm([one.difference.p for one in compared])
    tasks = [replace(one, difference=replace(one.difference, p_holm=value))
             for one, value in zip(compared, corrected, strict=True)]  # fmt: skip
    scaled = [one for one in common if one.task in scales()]
    overall = _overall(scaled, draws) if scaled else None
    return Pair(first.label, second.label, tuple(tasks), len(scaled), overall, not_compared)


def _compared(one: Shared, draws: int) -> TaskComparison:
    first, second = one.first, one.second
    estimate, parts = difference(first, second), components(first, second)
    return TaskComparison(
        task=one.task,
        comparable_id=one.comparable_id,
        cases=first.shape[1],
        runs=(len(first), len(second)),
        scores=(score(first).value, score(second).value),
        correlation=_correlation(first, second),
        pairing_gain=(score(first).variance + score(second).variance) / estimate.variance
        if estimate.variance
        else None,
        difference=_difference(estimate, [one], draws, parts),
    )


def _overall(common: Sequence[Shared], draws: int) -> Difference:
    """Every task counts the same, in units of its scale."""
    units = [scales()[one.task].unit for one in common]
    estimate = average(
        [difference(one.first, one.second).scaled(1.0 / unit) for one, unit in zip(common, units, strict=True)]
    )
    found = [components(one.first, one.second) for one in common]
    known = [parts.scaled(1.0 / (unit * len(common)) ** 2) for parts, unit in zip(found, units, strict=True) if parts]
    total = sum(known, Components(0.0, 0.0, 0.0)) if len(known) == len(common) else None
    return _difference(estimate, common, draws, total)


def _difference(estimate: Estimate, common: Sequence[Shared], draws: int, parts: Components | None) -> Difference:
    return Difference(
        value=Number(estimate.value, estimate.interval()),
        scope=estimate.scope,
        coverage=coverage(len(common), min(len(side) for one in common for side in (one.first, one.second))),
        p=estimate.p_value(),
        p_holm=None,
        p_improvement=_p_improvement(common, estimate, draws),
        plans=plans(estimate.value, parts, len(common)) if parts else None,
    )


def _p_improvement(common: Sequence[Shared], estimate: Estimate, draws: int) -> Number:
    value = float(probability_of_improvement([one.first.mean(axis=1) for one in common],
                                             [one.second.mean(axis=1) for one in common]))  # fmt: skip
    drawn = [_drawn({0: one.first, 1: one.second}, one.task, draws) for one in common]
    shares = probability_of_improvement([one[0] for one in drawn], [one[1] for one in drawn])
    return Number(value, percentile_interval(value, shares, estimate.degrees, bounds=(0.0, 1.0)))


def _drawn(matrices: Mapping[int, Matrix], task: str, draws: int) -> dict[int, Matrix]:
    return draw(matrices, np.random.default_rng([SEED, zlib.crc32(task.encode())]), draws)


def _correlation(first: Matrix, second: Matrix) -> float | None:
    one, other = first.mean(axis=0), second.mean(axis=0)
    if one.size < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _with_overall(pair: Pair, p_holm: float | None) -> Pair:
    return replace(pair, overall=replace(pair.overall, p_holm=p_holm)) if pair.overall else pair
