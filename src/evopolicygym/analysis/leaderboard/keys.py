"""Scores on generated tasks over several keys.

Each key draws another task, so that runs under different keys have different comparable_ids and are on different
boards. Their normalised scores share the scale from the best trivial policy to the expert, and are averaged here: each
key counts the same, however many runs it has."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.leaderboard.boards import conditions, separate_reasons
from evopolicygym.analysis.scales import aggregate_bounds, counted_runs, run_scores, scale_of
from evopolicygym.analysis.scores import mean, run_score
from evopolicygym.analysis.stats.by_task import mean_over_tasks
from evopolicygym.analysis.stats.estimates import Number
from evopolicygym.record_checks import GENERATED
from evopolicygym.reference.return_bounds import Bounds
from evopolicygym.reference.scales import Scale
from evopolicygym.run_record import RunRecord

# Facts of a fingerprint that another key may change. All others must be equal.
DRAWN: Final = frozenset({"splits", "world", "env_options", "horizon", "failure_return", "on"})
ALL_TASKS: Final = "all tasks"


@dataclass(frozen=True)
class KeyMean:
    """Normalised score of an entrant on one task, or on all tasks of its table.

    The intervals are Student's t over ``keys``. ``normalised`` is within the scale. ``unclipped`` is the same mean
    without bounds: only its interval can say that an entrant is above the best trivial policy, because chance alone
    lifts the mean of bounded scores above 0. ``between_keys`` is the standard deviation of the means of keys,
    ``between_runs`` that of runs under one key, pooled over keys; None where there are too few. All tasks together have
    neither.
    """

    task: str
    entrant: str
    keys: int
    runs: int
    normalised: Number
    unclipped: Number
    between_keys: float | None = None
    between_runs: float | None = None


@dataclass(frozen=True)
class KeyTable:
    """Means over keys under one set of conditions."""

    conditions: dict[str, Any]
    rows: tuple[KeyMean, ...]


Score = tuple[float, float]  # of a run: normalised within the scale, and without bounds
Scores = Mapping[str, Sequence[Score]]  # by comparable_id


def key_tables(runs: Iterable[RunRecord]) -> tuple[KeyTable, ...]:
    """Return a table for each set of conditions under which generated tasks were played with two or more keys."""
    scores: dict[str, dict[tuple[str, str], dict[str, list[Score]]]] = {}
    shared: dict[str, dict[str, Any]] = {}
    used: dict[str, list[Scale]] = defaultdict(list)
    for run in runs:
        scale, score = scale_of(run), run_score(run)
        if not run.task.id.startswith(GENERATED) or scale is None or score.missing:
            continue
        facts = {name: value for name, value in conditions(run.ids.fingerprint).items() if name not in DRAWN}
        group = json.dumps([separate_reasons(run), facts], sort_keys=True, default=str)
        shared[group] = facts
        used[group].append(scale)
        groups = scores.setdefault(group, defaultdict(lambda: defaultdict(list)))
        version = f"{run.task.id} (version {run.task.version})" if run.task.version > 1 else run.task.id
        unclipped = scale.normalise(float(counted_runs([score], scale).mean()))
        within_scale = float(run_scores([score], scale)[0])
        groups[version, entrant(run)][run.ids.comparable_id].append((within_scale, unclipped))
    tables = [KeyTable(shared[group], tuple(_rows(scores[group], aggregate_bounds(used[group])))) for group in scores]
    return tuple(table for table in tables if table.rows)


def _rows(scores: Mapping[tuple[str, str], Scores], bounds: Bounds) -> list[KeyMean]:
    if all(len(by_key) < 2 for by_key in scores.values()):
        return []
    rows = [_key_mean(task, label, by_key, bounds) for (task, label), by_key in sorted(scores.items())]
    tasks = {row.task for row in rows}
    for label in sorted({row.entrant for row in rows}) if len(tasks) > 1 else ():
        mine = [row for row in rows if row.entrant == label]
        if len(mine) == len(tasks):
            counts = (min(row.keys for row in mine), sum(row.runs for row in mine))
            number = Number(mean(row.normalised.value for row in mine), None)
            unclipped = Number(mean(row.unclipped.value for row in mine), None)
            rows.append(KeyMean(ALL_TASKS, label, *counts, number, unclipped))
    return rows


def _key_mean(task: str, label: str, by_key: Scores, bounds: Bounds) -> KeyMean:
    within_scale = [[score for score, _ in scores] for scores in by_key.values()]
    means = [mean(scores) for scores in within_scale]
    squares = [(score - mean(scores)) ** 2 for scores in within_scale for score in scores]
    degrees = len(squares) - len(means)
    number = mean_over_tasks(means)
    return KeyMean(
        task=task,
        entrant=label,
        keys=len(means),
        runs=len(squares),
        normalised=Number(number.value, number.interval.clipped(bounds) if number.interval else None),
        unclipped=mean_over_tasks([mean(unclipped for _, unclipped in scores) for scores in by_key.values()]),
        between_keys=_deviation([(value - mean(means)) ** 2 for value in means], len(means) - 1),
        between_runs=_deviation(squares, degrees),
    )


def _deviation(squares: Sequence[float], degrees: int) -> float | None:
    return math.sqrt(math.fsum(squares) / degrees) if degrees else None
