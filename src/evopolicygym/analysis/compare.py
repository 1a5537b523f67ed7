"""Compare entrants on the cases that they share: paired differences per task and overall, corrected by Holm.

The runs below each path are split by entrant, and every two entrants are compared.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.gain import GainDifference, gain_difference, scale_of
from evopolicygym.analysis.leaderboard.boards import conditions, differences, separate_reasons
from evopolicygym.analysis.scores import Matrix, RunScore, entrant, run_score
from evopolicygym.analysis.stats.bootstrap import DRAWS, SEED, draw, percentile_interval, probability_of_improvement
from evopolicygym.analysis.stats.estimates import (
    Coverage,
    Estimate,
    Number,
    average,
    coverage,
    estimate_difference,
    estimate_score,
)
from evopolicygym.analysis.stats.power import RunsNeeded, VarianceComponents, runs_needed, variance_components
from evopolicygym.errors import UserError
from evopolicygym.reference.anchors import Scale
from evopolicygym.run_record import RunRecord

MAX_ENTRANTS: Final = 50


@dataclass(frozen=True)
class ComparedEntrant:
    """Runs of one entrant, by task and comparable_id. ``missing``: runs without a score, and why. ``apart``: why a
    leaderboard would put its runs on a separate board."""

    label: str
    runs: dict[tuple[str, str], list[RunScore]]
    missing: dict[str, str]
    apart: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SharedTask:
    """A task that both entrants have under the same comparable_id: returns (runs x cases) of each, what feedback was
    worth to them, and the scale of its scores."""

    task: str
    comparable_id: str
    conditions: dict[str, Any]
    first: Matrix
    second: Matrix
    gain: GainDifference | None
    scale: Scale | None


def compared_entrants(paths: Mapping[str, Sequence[RunRecord]]) -> list[ComparedEntrant]:
    """Split the runs of each path by entrant. The path joins the label where two paths hold the same entrant."""
    split = [(path, name, runs) for path, listed in paths.items() for name, runs in _by_entrant(listed).items()]
    names = [name for _, name, _ in split]
    return [_entrant(name if names.count(name) == 1 else f"{name} ({path})", runs) for path, name, runs in split]


def shared_tasks(first: ComparedEntrant, second: ComparedEntrant) -> tuple[list[list[SharedTask]], dict[str, str]]:
    """Return the tasks that can be compared, in groups with one set of conditions each, the largest group first; and
    the reason for each task that cannot."""
    both = sorted(key for key in first.runs if key in second.runs)
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in both:
        groups[_conditions(first.runs[key][0].run)].append(key)
    chosen = [_one_per_task(keys, first, second) for keys in groups.values()]
    chosen.sort(key=lambda keys: (-len(keys), -sum(_fewest_runs(first, second, key) for key in keys)))
    common = [[_shared_task(key, first.runs[key], second.runs[key]) for key in keys] for keys in chosen]
    used = {key for keys in chosen for key in keys}
    others = sorted({task for task, _ in (*first.runs, *second.runs)} - {task for task, _ in used})
    unused = {f"{task} ({name})": "under another comparable_id there are more runs"
              for task, name in both if (task, name) not in used}  # fmt: skip
    return common, {task: _why_not(task, first, second) for task in others} | unused


def _conditions(run: RunRecord) -> str:
    return json.dumps(conditions(run.ids.fingerprint), sort_keys=True, default=str)


def _one_per_task(
    keys: Sequence[tuple[str, str]], first: ComparedEntrant, second: ComparedEntrant
) -> list[tuple[str, str]]:
    """Return the comparable_id with most runs of each task."""
    tasks = dict.fromkeys(task for task, _ in keys)
    return [
        max((key for key in keys if key[0] == task), key=lambda key: _fewest_runs(first, second, key)) for task in tasks
    ]


def _shared_task(key: tuple[str, str], first: Sequence[RunScore], second: Sequence[RunScore]) -> SharedTask:
    gain = gain_difference([score.run for score in first], [score.run for score in second])
    scale = scale_of(first[0].run)
    return SharedTask(*key, conditions(first[0].run.ids.fingerprint), _matrix(first), _matrix(second), gain, scale)


def _fewest_runs(first: ComparedEntrant, second: ComparedEntrant, key: tuple[str, str]) -> int:
    return min(len(first.runs[key]), len(second.runs[key]))


def _by_entrant(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    by_entrant: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        by_entrant[entrant(run)].append(run)
    return dict(sorted(by_entrant.items()))


def _entrant(label: str, runs: Sequence[RunRecord]) -> ComparedEntrant:
    scores = [run_score(run) for run in runs]
    counted: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for score in scores:
        if not score.missing:
            counted[(score.run.task.id, score.run.ids.comparable_id)].append(score)
    reasons = dict.fromkeys(reason for run in runs for reason in separate_reasons(run))
    return ComparedEntrant(
        label, dict(counted), {score.run.id: score.missing for score in scores if score.missing}, tuple(reasons)
    )


def _matrix(runs: Sequence[RunScore]) -> Matrix:
    return np.array([score.returns for score in runs], dtype=np.float64)


def _why_not(task: str, first: ComparedEntrant, second: ComparedEntrant) -> str:
    mine, theirs = (
        next((runs[0].run for key, runs in side.runs.items() if key[0] == task), None) for side in (first, second)
    )
    if mine is None or theirs is None:
        return f"{(first if mine is None else second).label} has no score"
    return "; ".join(differences(mine.ids.fingerprint, theirs.ids.fingerprint)) or "the comparable_ids differ"


@dataclass(frozen=True)
class ScoreDifference:
    """Score of the first minus the second.

    ``p_holm`` is ``p`` corrected for the number of tasks; for the overall difference, for the number of pairs.
    ``plans`` say how many runs would detect the difference.
    """

    value: Number
    scope: str
    coverage: Coverage | None
    p: float | None
    p_holm: float | None
    p_improvement: Number
    plans: tuple[RunsNeeded, ...] | None


@dataclass(frozen=True)
class TaskComparison:
    """Two entrants on one task. ``correlation``: of their means by case. ``pairing_gain``: how many times larger the
    variance of the difference would be without shared cases. ``gain``: what the feedback was worth to each."""

    task: str
    comparable_id: str
    cases: int
    runs: tuple[int, int]
    scores: tuple[float, float]
    correlation: float | None
    pairing_gain: float | None
    difference: ScoreDifference
    gain: GainDifference | None


@dataclass(frozen=True)
class PairComparison:
    """Two entrants under one set of conditions. ``overall`` is the mean difference of normalised scores over the tasks
    that have a scale."""

    first: str
    second: str
    conditions: dict[str, Any]
    tasks: tuple[TaskComparison, ...]
    normalised_tasks: int
    overall: ScoreDifference | None
    not_compared: dict[str, str]


def compare(entrants: Sequence[ComparedEntrant], draws: int = DRAWS) -> list[PairComparison]:
    """Compare every two entrants, in the given order, once for each set of conditions that both have runs under.

    Raises:
        UserError: There are more than MAX_ENTRANTS; the number of pairs grows with their square.
    """
    if len(entrants) > MAX_ENTRANTS:
        raise UserError(
            f"there are {len(entrants)} entrants; compare takes at most {MAX_ENTRANTS}",
            "Name fewer paths, or use `evopolicygym leaderboard`.",
        )
    pairs = [pair for first, second in combinations(entrants, 2) for pair in _pairs(first, second, draws)]
    corrected = holm([pair.overall.p if pair.overall else None for pair in pairs])
    return [_with_overall(pair, value) for pair, value in zip(pairs, corrected, strict=True)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's (1979) step-down correction; None (unknown) is not counted."""
    ranked = sorted((value, i) for i, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for position, (value, i) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - position) * value))
        corrected[i] = highest
    return corrected


def _pairs(first: ComparedEntrant, second: ComparedEntrant, draws: int) -> list[PairComparison]:
    groups, not_compared = shared_tasks(first, second)
    if not groups:
        return [PairComparison(first.label, second.label, {}, (), 0, None, not_compared)]
    pairs = [_pair((first.label, second.label), common, draws) for common in groups]
    return [replace(pairs[0], not_compared=not_compared), *pairs[1:]]


def _pair(labels: tuple[str, str], common: Sequence[SharedTask], draws: int) -> PairComparison:
    compared = [_compare_task(task, draws) for task in common]
    corrected = holm([comparison.difference.p for comparison in compared])
    tasks = [replace(comparison, difference=replace(comparison.difference, p_holm=value))
             for comparison, value in zip(compared, corrected, strict=True)]  # fmt: skip
    scaled = [task for task in common if task.scale]
    overall = _overall(scaled, draws) if scaled else None
    return PairComparison(*labels, common[0].conditions, tuple(tasks), len(scaled), overall, {})


def _compare_task(task: SharedTask, draws: int) -> TaskComparison:
    first, second = task.first, task.second
    estimate, parts = estimate_difference(first, second), variance_components(first, second)
    return TaskComparison(
        task=task.task,
        comparable_id=task.comparable_id,
        cases=first.shape[1],
        runs=(len(first), len(second)),
        scores=(estimate_score(first).value, estimate_score(second).value),
        correlation=_correlation(first, second),
        pairing_gain=(estimate_score(first).variance + estimate_score(second).variance) / estimate.variance
        if estimate.variance
        else None,
        difference=_difference(estimate, [task], draws, parts),
        gain=task.gain,
    )


def _overall(common: Sequence[SharedTask], draws: int) -> ScoreDifference:
    """Average over tasks with equal weights, in units of each task's scale."""
    units = [task.scale.unit for task in common if task.scale]
    estimate = average(
        [
            estimate_difference(task.first, task.second).scaled(1.0 / unit)
            for task, unit in zip(common, units, strict=True)
        ]
    )
    components = [variance_components(task.first, task.second) for task in common]
    scaled = [
        parts.scaled(1.0 / (unit * len(common)) ** 2) for parts, unit in zip(components, units, strict=True) if parts
    ]
    total = sum(scaled, VarianceComponents(0.0, 0.0, 0.0)) if len(scaled) == len(common) else None
    return _difference(estimate, common, draws, total)


def _difference(
    estimate: Estimate, common: Sequence[SharedTask], draws: int, parts: VarianceComponents | None
) -> ScoreDifference:
    return ScoreDifference(
        value=Number(estimate.value, estimate.interval()),
        scope=estimate.scope,
        coverage=coverage(len(common), min(len(matrix) for task in common for matrix in (task.first, task.second))),
        p=estimate.p_value(),
        p_holm=None,
        p_improvement=_p_improvement(common, estimate, draws),
        plans=runs_needed(estimate.value, parts, len(common)) if parts else None,
    )


def _p_improvement(common: Sequence[SharedTask], estimate: Estimate, draws: int) -> Number:
    value = float(probability_of_improvement([task.first.mean(axis=1) for task in common],
                                             [task.second.mean(axis=1) for task in common]))  # fmt: skip
    drawn = [_drawn({0: task.first, 1: task.second}, task.task, draws) for task in common]
    shares = probability_of_improvement([pair[0] for pair in drawn], [pair[1] for pair in drawn])
    return Number(value, percentile_interval(value, shares, estimate.degrees_of_freedom, bounds=(0.0, 1.0)))


def _drawn(matrices: Mapping[int, Matrix], task: str, draws: int) -> dict[int, Matrix]:
    return draw(matrices, np.random.default_rng([SEED, zlib.crc32(task.encode())]), draws)


def _correlation(first: Matrix, second: Matrix) -> float | None:
    by_case = first.mean(axis=0), second.mean(axis=0)
    if by_case[0].size < 3 or np.ptp(by_case[0]) == 0.0 or np.ptp(by_case[1]) == 0.0:
        return None
    return float(np.corrcoef(*by_case)[0, 1])


def _with_overall(pair: PairComparison, p_holm: float | None) -> PairComparison:
    return replace(pair, overall=replace(pair.overall, p_holm=p_holm)) if pair.overall else pair
