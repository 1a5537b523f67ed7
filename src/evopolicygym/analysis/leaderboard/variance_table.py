"""Where differences come from: runs, cases and the rest on each task, and harness and model where a board crosses them.

An agent is a harness (the client) with a model. Where several harnesses were each played with the same several models
on the same tasks, the effect of one can be told from that of the other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from evopolicygym.analysis.leaderboard.aggregates import Aggregate
from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults
from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.by_task import EntrantDifference, compare_by_task
from evopolicygym.analysis.stats.measured import Coverage, deviation_coverage
from evopolicygym.analysis.stats.multiple_testing import holm
from evopolicygym.analysis.stats.variance import VarianceComponents, variance_components
from evopolicygym.run_record import RunRecord

ALL_TASKS: Final = "all tasks"
SCALE: Final = "scale"
RETURNS: Final = "returns"


@dataclass(frozen=True)
class VarianceRow:
    """Variance components of one entrant on one task, or on ``all tasks``: the mean of their squares. ``unit``: parts
    of the ``scale`` of the normalised score, or ``returns`` of a task without one. ``coverage``: measured coverage of
    the intervals from so many runs."""

    task: str
    entrant: str
    runs: int
    unit: str
    components: VarianceComponents
    coverage: Coverage | None


@dataclass(frozen=True)
class CrossedFactors:
    """Harnesses and models that were all played with each other, on ``tasks`` tasks.

    The deviations are variance components of a task's normalised score: between harnesses, between models, and by the
    combination of the two (``both``). So few harnesses and models give them no intervals. ``harness_differences`` and
    ``model_differences`` are means over the other factor, paired by task, corrected by Holm's method within each list.
    """

    harnesses: tuple[str, ...]
    models: tuple[str, ...]
    tasks: int
    harness: float
    model: float
    both: float
    harness_differences: tuple[EntrantDifference, ...]
    model_differences: tuple[EntrantDifference, ...]


@dataclass(frozen=True, eq=False)
class RunReturns:
    """Returns (runs x cases) of one entrant on one task, and the length of its scale."""

    task: str
    entrant: str
    matrix: Matrix
    unit: float | None


def returns_of(results: Iterable[TaskResults]) -> list[RunReturns]:
    """Return the returns of all entrants with runs."""
    return [
        RunReturns(
            result.task,
            entry.label,
            entry.counted(result.scale) if result.scale else entry.matrix,
            result.scale.unit if result.scale else None,
        )
        for result in results
        for entry in result.entries
        if entry.kind is EntryKind.RUNS and entry.matrix is not None
    ]


def variance_rows(returns: Sequence[RunReturns]) -> list[VarianceRow]:
    """Return the components of each entrant with two or more runs: over all tasks that have a scale, then by task."""
    scaled = defaultdict[str, list[RunReturns]](list)
    for part in returns:
        if part.unit:
            scaled[part.entrant].append(part)
    over_tasks = [_row(ALL_TASKS, parts) for _, parts in sorted(scaled.items()) if len(parts) > 1]
    return [row for row in (*over_tasks, *(_row(part.task, [part]) for part in returns)) if row]


def _row(task: str, parts: Sequence[RunReturns]) -> VarianceRow | None:
    components = variance_components([(part.matrix, part.unit or 1.0) for part in parts])
    if components is None:
        return None
    fewest = min(len(part.matrix) for part in parts)
    unit = SCALE if parts[0].unit else RETURNS
    return VarianceRow(task, parts[0].entrant, fewest, unit, components, deviation_coverage(len(parts), fewest))


def crossed_factors(whole: Aggregate | None, results: Iterable[TaskResults]) -> CrossedFactors | None:
    """Return the effects of harness and model over the tasks of an aggregate; None where they are not crossed."""
    scores = {row.entrant: [*row.task_scores.values()] for row in whole.standings} if whole else {}
    grid = _grid({label: run for label, run in _samples(results).items() if label in scores})
    if grid is None:
        return None
    harnesses, models, cells = grid
    table = np.array([[scores[cells[harness, model]] for model in models] for harness in harnesses])
    components = _components(table)
    return CrossedFactors(
        harnesses=harnesses,
        models=models,
        tasks=table.shape[2],
        harness=components[0],
        model=components[1],
        both=components[2],
        harness_differences=_differences(harnesses, table.mean(axis=1)),
        model_differences=_differences(models, table.mean(axis=0)),
    )


def _samples(results: Iterable[TaskResults]) -> dict[str, RunRecord]:
    return {entry.label: entry.runs[0] for result in results for entry in result.entries if entry.runs}


Grid = tuple[tuple[str, ...], tuple[str, ...], dict[tuple[str, str], str]]


def _grid(samples: Mapping[str, RunRecord]) -> Grid | None:
    """Return harnesses and models that were all played with each other, with the entrant of each pair. A pair that was
    played with several settings is left out: which of them compares is not known."""
    labels = defaultdict[tuple[str, str], list[str]](list)
    for label, run in sorted(samples.items()):
        if run.agent and run.agent.model:
            labels[run.agent.name, run.agent.model].append(label)
    cells = {pair: entrants[0] for pair, entrants in labels.items() if len(entrants) == 1}
    all_harnesses, all_models = (sorted({pair[i] for pair in cells}) for i in (0, 1))
    by_all = [model for model in all_models if all((harness, model) in cells for harness in all_harnesses)]
    with_all = [harness for harness in all_harnesses if all((harness, model) in cells for model in all_models)]
    for harnesses, models in ((all_harnesses, by_all), (with_all, all_models)):
        if min(len(harnesses), len(models)) > 1:
            return tuple(harnesses), tuple(models), cells
    return None


def _components(table: Matrix) -> tuple[float, float, float]:
    """Return standard deviations between harnesses, between models and by their combination, from one score for each
    harness, model and task. Each is a difference of mean squares of the three-way layout, at least 0."""
    harnesses, models, tasks = table.shape
    by_pair = table.mean(axis=2)
    by_harness, by_model, grand = by_pair.mean(axis=1), by_pair.mean(axis=0), table.mean()
    both = by_pair - by_harness[:, None] - by_model[None, :] + grand
    square_both = tasks * float((both**2).sum()) / ((harnesses - 1) * (models - 1))
    with_task = table - by_pair[:, :, None] - table.mean(axis=(0, 1)) + grand
    harness_task, model_task = with_task.mean(axis=1), with_task.mean(axis=0)
    rest = with_task - harness_task[:, None, :] - model_task[None, :, :]
    freedom = max(tasks - 1, 1)
    square_rest = float((rest**2).sum()) / ((harnesses - 1) * (models - 1) * freedom)
    variances = [(square_both - square_rest) / tasks]
    for means, with_tasks, others in ((by_harness, harness_task, models), (by_model, model_task, harnesses)):
        square = tasks * others * float(means.var(ddof=1))
        square_task = others * float((with_tasks**2).sum()) / ((len(means) - 1) * freedom)
        variances.append((square - square_both - square_task + square_rest) / (tasks * others))
    both_variance, harness_variance, model_variance = (max(value, 0.0) for value in variances)
    return math.sqrt(harness_variance), math.sqrt(model_variance), math.sqrt(both_variance)


def _differences(names: Sequence[str], scores: Matrix) -> tuple[EntrantDifference, ...]:
    """Compare every two levels of a factor (levels x tasks), the better one first."""
    order = sorted(range(len(names)), key=lambda i: -float(scores[i].mean()))
    pairs = list(combinations(order, 2))
    tests = [compare_by_task(scores[i].tolist(), scores[j].tolist()) for i, j in pairs]
    corrected = holm([test.p for test in tests])
    return tuple(
        EntrantDifference(names[i], names[j], test, p) for (i, j), test, p in zip(pairs, tests, corrected, strict=True)
    )
