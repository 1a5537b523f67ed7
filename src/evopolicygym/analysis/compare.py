"""Compare entrants on the cases that they share: paired differences per task and over tasks, corrected by Holm.

The runs below each path are split by entrant, and every two entrants are compared. As on a leaderboard, a comparison
has one comparable_id per task and one set of conditions, and runs that a leaderboard puts on a separate board (no
isolation, an open network) are compared only with runs like them.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.analysis.gain import GainDifference, gain_difference
from evopolicygym.analysis.leaderboard.aggregates import PROFILE
from evopolicygym.analysis.leaderboard.boards import SameId, conditions, differences, one_id_per_task, separate_reasons
from evopolicygym.analysis.leaderboard.costs import CostRow, cost_rows
from evopolicygym.analysis.scales import aggregate_bounds, bounded_runs, bounds_of, counted_runs, run_scores, scale_of
from evopolicygym.analysis.scores import Matrix, RunScore, run_score, selected_policies
from evopolicygym.analysis.stats.by_task import PairedTest, compare_by_task
from evopolicygym.analysis.stats.estimates import (
    ONE_RUN,
    Number,
    average,
    contrast,
    correlation_by_case,
    difference_p_value,
    estimate_difference,
    estimate_score,
)
from evopolicygym.analysis.stats.improvement import improvement, improvement_over_tasks
from evopolicygym.analysis.stats.measured import Coverage, difference_coverage, misleading_rate
from evopolicygym.analysis.stats.multiple_testing import holm
from evopolicygym.analysis.stats.pooled import performance_profile
from evopolicygym.analysis.stats.power import (
    ALPHA,
    EFFECT,
    RunsNeeded,
    TasksNeeded,
    difference_variance,
    runs_needed,
    tasks_needed,
)
from evopolicygym.analysis.stats.variance import VarianceComponents, variance_components
from evopolicygym.analysis.work_limit import check_comparisons
from evopolicygym.errors import UserError
from evopolicygym.reference.return_bounds import Bounds
from evopolicygym.reference.scales import Scale
from evopolicygym.run_record import RunRecord

MAX_ENTRANTS: Final = 50
RunsKey = tuple[str, str, tuple[str, ...]]  # task, comparable_id, and why a leaderboard puts runs on a separate board


@dataclass(frozen=True)
class ComparedEntrant:
    """Runs of one entrant, in groups that may share a table. ``missing``: runs without a score, and why. ``apart``: why
    a leaderboard would put its runs, or some of them, on a separate board."""

    label: str
    runs: dict[RunsKey, list[RunScore]]
    missing: dict[str, str]
    apart: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SharedTask:
    """A task that both entrants have under the same comparable_id: returns (runs x cases) of each, what feedback was
    worth to them, the scale of its scores, on it the counted returns and the scores of the runs of each, and their
    runs."""

    task: str
    comparable_id: str
    conditions: dict[str, Any]
    first: Matrix
    second: Matrix
    gain: GainDifference | None
    scale: Scale | None
    counted: tuple[Matrix, Matrix] | None
    run_scores: tuple[Matrix, Matrix] | None
    bounds: Bounds
    runs: tuple[list[RunRecord], list[RunRecord]]


def compared_entrants(paths: Mapping[str, Sequence[RunRecord]]) -> list[ComparedEntrant]:
    """Split the runs of each path by entrant. The path joins the label where two paths hold the same entrant."""
    split = [(path, name, runs) for path, listed in paths.items() for name, runs in _by_entrant(listed).items()]
    counts = Counter(name for _, name, _ in split)
    return [_entrant(name if counts[name] == 1 else f"{name} ({path})", runs) for path, name, runs in split]


def shared_tasks(first: ComparedEntrant, second: ComparedEntrant) -> tuple[list[list[SharedTask]], dict[str, str]]:
    """Return the tasks that can be compared, in groups with one set of conditions each, the largest group first; and
    the reason for each task that cannot."""
    both = sorted(key for key in first.runs if key in second.runs)
    groups: dict[tuple[str, tuple[str, ...]], list[RunsKey]] = defaultdict(list)
    for key in both:
        groups[_conditions(first.runs[key][0].run), key[2]].append(key)
    chosen = [_one_per_task(keys, first, second) for keys in groups.values()]
    chosen.sort(key=lambda keys: (-len(keys), -sum(_fewest_runs(first, second, key) for key in keys)))
    common = [[_shared_task(key, first.runs[key], second.runs[key]) for key in keys] for keys in chosen]
    used = {key for keys in chosen for key in keys}
    others = sorted({key[0] for key in (*first.runs, *second.runs)} - {key[0] for key in used})
    unused = {f"{task} ({name})": "under another comparable_id there are more runs"
              for task, name, _ in both if (task, name, _) not in used}  # fmt: skip
    left_out = _left_out(first, second) | _left_out(second, first)
    runs = [{key[0]: scores[0].run for key, scores in reversed(side.runs.items())} for side in (first, second)]
    reasons = {task: _why_not(first, second, runs[0].get(task), runs[1].get(task)) for task in others}
    return common, reasons | unused | left_out


def _left_out(side: ComparedEntrant, other: ComparedEntrant) -> dict[str, str]:
    """Return the groups of runs that are left out although their task is compared, and how each differs from the runs
    that are compared: the other entrant has no runs under its conditions."""
    compared = {key[0]: runs[0].run for key, runs in side.runs.items() if key in other.runs}
    left_out: dict[str, list[str]] = defaultdict(list)
    for (task, name, apart), runs in side.runs.items():
        if task in compared and (task, name, apart) not in other.runs:
            unequal = differences(runs[0].run.ids.fingerprint, compared[task].ids.fingerprint)
            reasons = "; ".join((*unequal, *apart)) or "on a separate board"
            left_out[f"{task} ({name}): {pluralize(len(runs), 'run')} of {side.label}"].append(reasons)
    return {group: ", and as many: ".join(reasons) for group, reasons in left_out.items()}


def _conditions(run: RunRecord) -> str:
    return json.dumps(conditions(run.ids.fingerprint), sort_keys=True, default=str)


def _one_per_task(keys: Sequence[RunsKey], first: ComparedEntrant, second: ComparedEntrant) -> list[RunsKey]:
    """Return the comparable_id of each task that a board would have."""
    listed = {key[:2]: key for key in keys}
    groups = (SameId.of(first.runs[key][0].run, _fewest_runs(first, second, key)) for key in keys)
    return sorted(listed[group.task, group.comparable_id] for group in one_id_per_task(groups))


def _shared_task(key: RunsKey, first: Sequence[RunScore], second: Sequence[RunScore]) -> SharedTask:
    runs = ([score.run for score in first], [score.run for score in second])
    gain, run = gain_difference(*runs), first[0].run
    facts = conditions(run.ids.fingerprint) | ({"apart": "; ".join(key[2])} if key[2] else {})
    scale = scale_of(run)
    counted = (counted_runs(first, scale), counted_runs(second, scale)) if scale else None
    scaled = (run_scores(first, scale), run_scores(second, scale)) if scale else None
    matrices = (_matrix(first), _matrix(second))
    return SharedTask(key[0], key[1], facts, *matrices, gain, scale, counted, scaled, bounds_of(run), runs)


def _fewest_runs(first: ComparedEntrant, second: ComparedEntrant, key: RunsKey) -> int:
    return min(len(first.runs[key]), len(second.runs[key]))


def _by_entrant(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    by_entrant: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        by_entrant[entrant(run)].append(run)
    return dict(sorted(by_entrant.items()))


def _entrant(label: str, runs: Sequence[RunRecord]) -> ComparedEntrant:
    scores = [run_score(run) for run in runs]
    counted: dict[RunsKey, list[RunScore]] = defaultdict(list)
    for score in scores:
        if not score.missing:
            counted[score.run.task.id, score.run.ids.comparable_id, separate_reasons(score.run)].append(score)
    reasons = dict.fromkeys(reason for run in runs for reason in separate_reasons(run))
    return ComparedEntrant(
        label, dict(counted), {score.run.id: score.missing for score in scores if score.missing}, tuple(reasons)
    )


def _matrix(runs: Sequence[RunScore]) -> Matrix:
    return np.array([score.returns for score in runs], dtype=np.float64)


def _why_not(first: ComparedEntrant, second: ComparedEntrant, run: RunRecord | None, other: RunRecord | None) -> str:
    """Return why a task is not compared, from a run of the first entrant on it and one of the second."""
    if run is None or other is None:
        return f"{(first if run is None else second).label} has no score"
    unequal = differences(run.ids.fingerprint, other.ids.fingerprint)
    for side, record in ((first, run), (second, other)):
        unequal += [f"{side.label}: {reason}" for reason in separate_reasons(record)]
    return "; ".join(unequal) or "the comparable_ids differ"


@dataclass(frozen=True)
class TaskDifference:
    """Score of the first minus the second on one task.

    Without two runs of each, interval, p-values, ``p_improvement`` and ``plan`` are None. ``p_holm`` is ``p`` corrected
    over all tasks of all pairs. ``misleading``: how often at most p < 0.05 came from equal means in simulations of so
    few runs; None where p is above, or it was about as rare as it claims to be. ``plan`` says how many runs would find
    the effect of interest.
    """

    value: Number
    scope: str
    coverage: Coverage | None
    p: float | None
    p_holm: float | None
    misleading: float | None
    p_improvement: Number | None
    plan: RunsNeeded | None


@dataclass(frozen=True)
class TaskComparison:
    """Two entrants on one task. ``correlation``: of their means by case. ``pairing_gain``: how many times larger the
    variance of the difference would be without shared cases. ``gain``: what the feedback was worth to each.
    ``variance``: variance components of each, in parts of the scale; None with one run, or without a scale.
    ``policies``: number of distinct policies that the runs of each selected."""

    task: str
    comparable_id: str
    cases: int
    runs: tuple[int, int]
    policies: tuple[int, int]
    scores: tuple[float, float]
    correlation: float | None
    pairing_gain: float | None
    difference: TaskDifference
    gain: GainDifference | None
    variance: tuple[VarianceComponents | None, VarianceComponents | None]


@dataclass(frozen=True)
class OverallDifference:
    """Mean difference of normalised scores, with tasks as the sample: valid with one run of each on each task.

    ``p_holm`` is corrected over all pairs. ``p_improvement`` is None where a task has one run. ``plan`` says how many
    tasks would find the effect of interest. ``profiles``: performance profiles of both, as on a leaderboard.
    """

    test: PairedTest
    p_holm: float | None
    p_improvement: Number | None
    plan: TasksNeeded | None
    profiles: tuple[tuple[Number, ...], tuple[Number, ...]]


@dataclass(frozen=True)
class PairComparison:
    """Two entrants under one set of conditions. ``overall`` is over the ``normalised_tasks`` tasks that have a scale.
    ``tests`` is the number of p-values over which those of tasks are corrected, ``pairs`` that of overall ones."""

    first: str
    second: str
    conditions: dict[str, Any]
    tasks: tuple[TaskComparison, ...]
    normalised_tasks: int
    overall: OverallDifference | None
    not_compared: dict[str, str]
    costs: tuple[CostRow, ...] = ()
    tests: int = 0
    pairs: int = 0


def compare(entrants: Sequence[ComparedEntrant], effect: float = EFFECT) -> list[PairComparison]:
    """Compare every two entrants, in the given order, once for each set of conditions that both have runs under.

    Args:
        entrants: The entrants.
        effect: The smallest difference of interest, in units of each task's normalisation scale.

    Raises:
        UserError: There are more than MAX_ENTRANTS, or too many comparisons; the number of pairs grows with the
            square of the number of entrants.
    """
    if len(entrants) > MAX_ENTRANTS:
        raise UserError(
            f"there are {len(entrants)} entrants; compare takes at most {MAX_ENTRANTS}",
            "Name fewer paths, or use `evopolicygym leaderboard`.",
        )
    if not 0.0 < effect < math.inf:
        raise UserError(f"the smallest difference of interest is {effect:g}", "Name a number above 0, such as 0.05.")
    check_comparisons(sum(len(first.runs.keys() | second.runs.keys()) for first, second in combinations(entrants, 2)))
    pairs = [pair for first, second in combinations(entrants, 2) for pair in _pairs(first, second, effect)]
    return _corrected(pairs)


def _corrected(pairs: Sequence[PairComparison]) -> list[PairComparison]:
    """Apply Holm's correction over everything that is shown: over all tasks of all pairs, and over all pairs."""
    of_tasks = holm([task.difference.p for pair in pairs for task in pair.tasks])
    overall = holm([pair.overall.test.p if pair.overall else None for pair in pairs])
    tests, counted = sum(p is not None for p in of_tasks), sum(p is not None for p in overall)
    remaining = iter(of_tasks)
    return [
        replace(
            pair,
            tasks=tuple(
                replace(task, difference=replace(task.difference, p_holm=next(remaining))) for task in pair.tasks
            ),
            overall=replace(pair.overall, p_holm=p_holm) if pair.overall else None,
            tests=tests,
            pairs=counted,
        )
        for pair, p_holm in zip(pairs, overall, strict=True)
    ]


def _pairs(first: ComparedEntrant, second: ComparedEntrant, effect: float) -> list[PairComparison]:
    groups, not_compared = shared_tasks(first, second)
    if not groups:
        return [PairComparison(first.label, second.label, {}, (), 0, None, not_compared)]
    pairs = [_pair((first.label, second.label), common, effect) for common in groups]
    return [replace(pairs[0], not_compared=not_compared), *pairs[1:]]


def _pair(labels: tuple[str, str], common: Sequence[SharedTask], effect: float) -> PairComparison:
    tasks = tuple(_compare_task(task, effect) for task in common)
    scaled = [task for task in common if task.scale]
    overall = _overall(scaled, effect) if scaled else None
    return PairComparison(*labels, common[0].conditions, tasks, len(scaled), overall, {}, _costs(labels, common))


def _compare_task(task: SharedTask, effect: float) -> TaskComparison:
    first, second = task.first, task.second
    variance = contrast([(1.0, first), (-1.0, second)]).variance
    return TaskComparison(
        task=task.task,
        comparable_id=task.comparable_id,
        cases=first.shape[1],
        runs=(len(first), len(second)),
        policies=(selected_policies(task.runs[0]), selected_policies(task.runs[1])),
        scores=(estimate_score(first).value, estimate_score(second).value),
        correlation=correlation_by_case(first, second),
        pairing_gain=(estimate_score(first).variance + estimate_score(second).variance) / variance
        if variance
        else None,
        difference=_difference(task, effect),
        gain=task.gain,
        variance=(_variance(task, 0), _variance(task, 1)),
    )


def _variance(task: SharedTask, side: int) -> VarianceComponents | None:
    return variance_components([(task.counted[side], task.scale.unit)]) if task.scale and task.counted else None


def _difference(task: SharedTask, effect: float) -> TaskDifference:
    estimate = estimate_difference(task.first, task.second)
    fewest = min(len(task.first), len(task.second))
    interval = estimate.interval() if fewest > 1 and estimate.variance else None
    p_value = difference_p_value(task.first, task.second)
    return TaskDifference(
        value=Number(estimate.value, interval.clipped(task.bounds.of_difference) if interval else None),
        scope=ONE_RUN if fewest == 1 else estimate.scope,
        coverage=difference_coverage(fewest),
        p=p_value,
        p_holm=None,
        misleading=misleading_rate("p", fewest) if p_value is not None and p_value < ALPHA else None,
        p_improvement=improvement(task.first.mean(axis=1), task.second.mean(axis=1)),
        plan=_plan(task, effect),
    )


def _plan(task: SharedTask, effect: float) -> RunsNeeded | None:
    """Return the runs needed; None without a scale, with one run, and where the runs do not differ."""
    parts = difference_variance(task.first, task.second)
    if parts is None or task.scale is None or not parts.shows(effect * task.scale.unit):
        return None
    return runs_needed(effect * task.scale.unit, parts, task.first.shape[1])


def _overall(common: Sequence[SharedTask], effect: float) -> OverallDifference:
    """Compare by task, with equal weights, in units of each task's scale."""
    scores = [[task.run_scores[side] for task in common if task.run_scores] for side in (0, 1)]
    means = [[float(runs.mean()) for runs in side] for side in scores]
    returns = [
        [matrix.mean(axis=1) for matrix in side]
        for side in zip(*((task.first, task.second) for task in common), strict=True)
    ]
    differences = [mine - theirs for mine, theirs in zip(*means, strict=True)]
    return OverallDifference(
        test=compare_by_task(means[0], means[1], aggregate_bounds(task.scale for task in common if task.scale)),
        p_holm=None,
        p_improvement=improvement_over_tasks(*returns),
        plan=tasks_needed(effect, differences),
        profiles=(performance_profile(scores[0], PROFILE), performance_profile(scores[1], PROFILE)),
    )


def _costs(labels: tuple[str, str], common: Sequence[SharedTask]) -> tuple[CostRow, ...]:
    """Return what both cost on the tasks that have a scale, and which of them is on the Pareto front."""
    scaled = [(task, task.scale, task.counted) for task in common if task.scale and task.counted]
    played, scores = {}, {}
    for side, label in enumerate(labels if scaled else ()):
        played[label] = {task.task: task.runs[side] for task, _, _ in scaled}
        returns = {task.task: bounded_runs(counted[side], scale) for task, scale, counted in scaled}
        whole = average([estimate_score(matrix) for matrix in returns.values()])
        interval = whole.interval() if whole.varies and not whole.one_run else None
        by_task = {task: float(matrix.mean()) for task, matrix in returns.items()}
        scores[label] = (Number(whole.value, interval), by_task)
    return tuple(cost_rows(played, scores))
