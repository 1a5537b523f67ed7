"""Two entrants on the same cases: paired differences on each task and overall, corrected for how many are asked."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from evopolicygym.analysis.leaderboard.boards import differences, separate_reasons
from evopolicygym.analysis.scores import Matrix, RunScore, entrant, run_score
from evopolicygym.analysis.stats.aggregates import probability_of_improvement
from evopolicygym.analysis.stats.bootstrap import DRAWS, SEED, draw, percentile_interval
from evopolicygym.analysis.stats.coverage import Coverage, coverage
from evopolicygym.analysis.stats.estimates import Estimate, Number, average, estimate_difference, estimate_score
from evopolicygym.analysis.stats.power import RunsNeeded, VarianceComponents, runs_needed, variance_components
from evopolicygym.reference.scale import scales
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class ComparedEntrant:
    """One entrant's runs, by task and comparable_id. ``missing`` are runs without a score; ``apart`` is what a
    leaderboard would show its runs apart for."""

    label: str
    runs: dict[tuple[str, str], list[RunScore]]
    missing: dict[str, str]
    apart: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SharedTask:
    """One task that both sides have under the same comparable_id: runs x cases of each."""

    task: str
    comparable_id: str
    first: Matrix
    second: Matrix


def compared_entrants(paths: Mapping[str, Sequence[RunRecord]]) -> list[ComparedEntrant]:
    """A path with one entrant is one side, a path with several is one for each. The path joins the label when two
    paths hold the same entrant."""
    found = [(path, who, runs) for path, listed in paths.items() for who, runs in _by_entrant(listed).items()]
    labels = [who for _, who, _ in found]
    return [_side(who if labels.count(who) == 1 else f"{who} ({path})", runs) for path, who, runs in found]


def shared_tasks(first: ComparedEntrant, second: ComparedEntrant) -> tuple[list[SharedTask], dict[str, str]]:
    """What can be compared, and for each task that cannot why not."""
    both = sorted(key for key in first.runs if key in second.runs)
    keys = {task: max((key for key in both if key[0] == task), key=lambda key: _fewer(first, second, key))
            for task, _ in both}  # fmt: skip
    common = [SharedTask(*key, _matrix(first.runs[key]), _matrix(second.runs[key])) for key in keys.values()]
    rest = sorted({task for task, _ in (*first.runs, *second.runs)} - set(keys))
    unused = {f"{task} ({name})": "under another comparable_id there are more runs"
              for task, name in both if (task, name) != keys[task]}  # fmt: skip
    return common, {task: _why_not(task, first, second) for task in rest} | unused


def _fewer(first: ComparedEntrant, second: ComparedEntrant, key: tuple[str, str]) -> int:
    return min(len(first.runs[key]), len(second.runs[key]))


def _by_entrant(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        found[entrant(run)].append(run)
    return dict(sorted(found.items()))


def _side(label: str, runs: Sequence[RunRecord]) -> ComparedEntrant:
    scores = [run_score(run) for run in runs]
    counted: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for one in scores:
        if not one.missing:
            counted[(one.run.task.id, one.run.ids.comparable_id)].append(one)
    reasons = dict.fromkeys(reason for run in runs for reason in separate_reasons(run))
    return ComparedEntrant(
        label, dict(counted), {one.run.id: one.missing for one in scores if one.missing}, tuple(reasons)
    )


def _matrix(runs: Sequence[RunScore]) -> Matrix:
    return np.array([one.returns for one in runs], dtype=np.float64)


def _why_not(task: str, first: ComparedEntrant, second: ComparedEntrant) -> str:
    found = [next((runs[0].run for key, runs in side.runs.items() if key[0] == task), None) for side in (first, second)]
    if found[0] is None or found[1] is None:
        return f"{(first if found[0] is None else second).label} has no score"
    return "; ".join(differences(found[0].ids.fingerprint, found[1].ids.fingerprint)) or "the comparable_ids differ"


@dataclass(frozen=True)
class ScoreDifference:
    """First minus second. ``p_holm`` is ``p`` corrected for the other tasks, or overall for the other pairs."""

    value: Number
    scope: str
    coverage: Coverage | None
    p: float | None
    p_holm: float | None
    p_improvement: Number
    plans: tuple[RunsNeeded, ...] | None


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
    difference: ScoreDifference


@dataclass(frozen=True)
class PairComparison:
    """``overall`` is the mean difference of normalised scores over the tasks that have a scale."""

    first: str
    second: str
    tasks: tuple[TaskComparison, ...]
    normalised_tasks: int
    overall: ScoreDifference | None
    not_compared: dict[str, str]


def compare(sides: Sequence[ComparedEntrant], draws: int = DRAWS) -> list[PairComparison]:
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


def _pair(first: ComparedEntrant, second: ComparedEntrant, draws: int) -> PairComparison:
    common, not_compared = shared_tasks(first, second)
    compared = [_compared(one, draws) for one in common]
    corrected = holm([one.difference.p for one in compared])
    tasks = [replace(one, difference=replace(one.difference, p_holm=value))
             for one, value in zip(compared, corrected, strict=True)]  # fmt: skip
    scaled = [one for one in common if one.task in scales()]
    overall = _overall(scaled, draws) if scaled else None
    return PairComparison(first.label, second.label, tuple(tasks), len(scaled), overall, not_compared)


def _compared(one: SharedTask, draws: int) -> TaskComparison:
    first, second = one.first, one.second
    estimate, parts = estimate_difference(first, second), variance_components(first, second)
    return TaskComparison(
        task=one.task,
        comparable_id=one.comparable_id,
        cases=first.shape[1],
        runs=(len(first), len(second)),
        scores=(estimate_score(first).value, estimate_score(second).value),
        correlation=_correlation(first, second),
        pairing_gain=(estimate_score(first).variance + estimate_score(second).variance) / estimate.variance
        if estimate.variance
        else None,
        difference=_difference(estimate, [one], draws, parts),
    )


def _overall(common: Sequence[SharedTask], draws: int) -> ScoreDifference:
    """Every task counts the same, in units of its scale."""
    units = [scales()[one.task].unit for one in common]
    estimate = average(
        [estimate_difference(one.first, one.second).scaled(1.0 / unit) for one, unit in zip(common, units, strict=True)]
    )
    found = [variance_components(one.first, one.second) for one in common]
    known = [parts.scaled(1.0 / (unit * len(common)) ** 2) for parts, unit in zip(found, units, strict=True) if parts]
    total = sum(known, VarianceComponents(0.0, 0.0, 0.0)) if len(known) == len(common) else None
    return _difference(estimate, common, draws, total)


def _difference(
    estimate: Estimate, common: Sequence[SharedTask], draws: int, parts: VarianceComponents | None
) -> ScoreDifference:
    return ScoreDifference(
        value=Number(estimate.value, estimate.interval()),
        scope=estimate.scope,
        coverage=coverage(len(common), min(len(side) for one in common for side in (one.first, one.second))),
        p=estimate.p_value(),
        p_holm=None,
        p_improvement=_p_improvement(common, estimate, draws),
        plans=runs_needed(estimate.value, parts, len(common)) if parts else None,
    )


def _p_improvement(common: Sequence[SharedTask], estimate: Estimate, draws: int) -> Number:
    value = float(probability_of_improvement([one.first.mean(axis=1) for one in common],
                                             [one.second.mean(axis=1) for one in common]))  # fmt: skip
    drawn = [_drawn({0: one.first, 1: one.second}, one.task, draws) for one in common]
    shares = probability_of_improvement([one[0] for one in drawn], [one[1] for one in drawn])
    return Number(value, percentile_interval(value, shares, estimate.degrees_of_freedom, bounds=(0.0, 1.0)))


def _drawn(matrices: Mapping[int, Matrix], task: str, draws: int) -> dict[int, Matrix]:
    return draw(matrices, np.random.default_rng([SEED, zlib.crc32(task.encode())]), draws)


def _correlation(first: Matrix, second: Matrix) -> float | None:
    one, other = first.mean(axis=0), second.mean(axis=0)
    if one.size < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _with_overall(pair: PairComparison, p_holm: float | None) -> PairComparison:
    return replace(pair, overall=replace(pair.overall, p_holm=p_holm)) if pair.overall else pair
