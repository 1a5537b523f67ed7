"""Aggregates over several tasks (a collection, a family, a demand): one number for each entrant, with its interval.

An aggregate needs all of its tasks. An entrant that lacks one is reported as "n of N" and is not ranked; the others are
ranked among themselves. Entrants are compared with tasks as the sample (`stats.by_task`), which is valid with one run
of each on each task.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from evopolicygym.analysis.entrants import RANDOM
from evopolicygym.analysis.leaderboard.sensitivity import Sensitivity, median_of_tasks, sensitivity
from evopolicygym.analysis.leaderboard.task_results import NO_ERROR_KNOWN, EntryKind, TaskEntry, TaskResults
from evopolicygym.analysis.scales import aggregate_bounds, bounded_runs
from evopolicygym.analysis.scores import Matrix, mean, mean_if_known, paper_normalised, task_score
from evopolicygym.analysis.stats.by_task import EntrantDifference, PairedTest, bounded_mean, compare_by_task
from evopolicygym.analysis.stats.estimates import ONE_RUN, Estimate, Interval, Number, average, estimate_score
from evopolicygym.analysis.stats.first_place import SEED, first_over_tasks
from evopolicygym.analysis.stats.improvement import improvement_over_tasks
from evopolicygym.analysis.stats.measured import FAMILY, Coverage, coverage
from evopolicygym.analysis.stats.multiple_testing import holm
from evopolicygym.analysis.stats.pooled import (
    estimate_interquartile_mean,
    estimate_optimality_gap,
    performance_profile,
)
from evopolicygym.analysis.stats.ranks import RankInterval, RankScore, over_tasks, rank_intervals, rank_score, ranks
from evopolicygym.reference import SCALE_VERSIONS, paper
from evopolicygym.reference.return_bounds import Bounds
from evopolicygym.reference.scales import Scale, scales

NOVEL: Final = "novel/"
OWN: Final = "other tasks"
SHARED: Final = "shared tasks"
# With fewer tasks, no difference over tasks can have p < 0.05, and bands of profiles are from 0 to 1.
FEWEST_TASKS: Final = 6
PROFILE: Final = tuple(round(0.05 * step, 2) for step in range(31))


@dataclass(frozen=True)
class AggregateRow:
    """One entrant that has all tasks, with at least ``fewest_runs`` runs of each.

    ``normalised`` is the primary aggregate: on scale 2 every run counts from 0 to 1, and ``unclipped`` is the same mean
    without these bounds. Its interval is over runs and cases of these very tasks, and missing where
    a task has one run. ``rank`` follows from it, ``places`` (the rank interval) from the differences over tasks.
    ``p_first`` and ``p_improvement``, the probability that a run of it beats a run of the other on average over tasks,
    are None where a task has one run. ``rank_score`` has an interval over tasks, and so has ``profile``: the share of
    runs above each score of PROFILE. ``median`` is over tasks. ``failed`` is the share of held-out episodes that
    failed, as a mean over tasks, and ``without_policy`` counts the runs that never had an ``ok`` submission; both are
    None for rows that are not runs. ``task_scores`` are normalised scores by task.
    """

    entrant: str
    fewest_runs: int
    normalised: Number
    scope: str
    coverage: Coverage | None
    rank: int
    places: RankInterval
    p_first: float | None
    interquartile_mean: Number
    optimality_gap: Number
    profile: tuple[Number, ...]
    rank_score: Number | None
    wins: int
    top2: int
    paper_normalised: float | None
    p_improvement: dict[str, Number | None]
    unclipped: float
    median: float
    failed: float | None
    without_policy: int | None
    task_scores: dict[str, float]


@dataclass(frozen=True)
class Aggregate:
    """Rows of complete entrants, and the differences of every two of them, the better one first. ``incomplete`` counts
    how many of the ``tasks`` other entrants with runs have. ``caution``: what so few runs cannot say. ``sensitivity``:
    whether the order depends on how scores are put together; None with one entrant or one task."""

    name: str
    tasks: int
    standings: tuple[AggregateRow, ...]
    differences: tuple[EntrantDifference, ...]
    incomplete: dict[str, int]
    caution: str | None
    sensitivity: Sensitivity | None

    @property
    def profiles(self) -> dict[str, tuple[Number, ...]]:
        """Performance profiles by entrant."""
        return {row.entrant: row.profile for row in self.standings}


def task_groups(results: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the tasks of each aggregate: of Core16 the collection, its families and its demands; of generated tasks
    those among the ``results``, by family and by level; all others, which are the user's, together."""
    listed = list(results)
    generated = sorted(task for task in listed if task.startswith(NOVEL))
    own = sorted(set(listed).difference(generated, paper.core16()))
    groups: dict[str, list[str]] = {NOVEL.rstrip("/"): generated, OWN: own}
    for task in generated:
        family, _, level = task.rpartition("-")
        for name in (family, f"{NOVEL}level-{level}"):
            groups.setdefault(name, []).append(task)
    several = {name: tuple(tasks) for name, tasks in groups.items() if len(tasks) > 1}
    return {"core16": paper.core16(), **paper.families(), **paper.demands(), **several}


def shared_tasks(results: Mapping[str, TaskResults]) -> dict[str, tuple[str, ...]]:
    """Return the tasks that all entrants with runs have, as a group of its own, which gives a board without all of
    Core16 an overall score. Empty if they are fewer than two, or one of the other groups."""
    if set(paper.core16()) <= results.keys():
        return {}
    players = {task: _players(result) for task, result in results.items()}
    everyone = set().union(*players.values())
    shared = tuple(task for task in results if everyone and players[task] == everyone)
    is_another_group = any(set(shared) == set(tasks) for tasks in task_groups(results).values())
    return {} if len(shared) < 2 or is_another_group else {SHARED: shared}


def _players(result: TaskResults) -> set[str]:
    return {entry.label for entry in result.entries if entry.kind is EntryKind.RUNS}


def aggregate(name: str, tasks: Sequence[str], results: Mapping[str, TaskResults]) -> Aggregate:
    """Aggregate the results of the tasks, as far as they are there."""
    present = [results[task] for task in tasks if task in results]
    counts = {
        label: sum(label in result.by_label for result in present) for result in present for label in result.by_label
    }
    complete = [label for label, count in counts.items() if count == len(tasks)]
    entrants = _CompleteEntrants(name, present, complete)
    standings = sorted(entrants.standings() if complete else [], key=lambda row: (row.rank, row.entrant))
    differences = entrants.differences() if complete else []
    played = set().union(*map(_players, present))
    incomplete = {label: count for label, count in sorted(counts.items()) if count < len(tasks) and label in played}
    caution = ONE_RUN if any(label in played and entrants.has_one_run(label) for label in complete) else None
    robust = entrants.sensitivity() if complete else None
    return Aggregate(name, len(tasks), tuple(standings), tuple(differences), incomplete, caution, robust)


@dataclass(frozen=True, eq=False)
class _CompleteEntrants:
    """Entrants that have all tasks. Methods return a list with an item for each, in the order of ``labels``."""

    name: str
    results: list[TaskResults]
    labels: list[str]

    def standings(self) -> list[AggregateRow]:
        ranked = ranks([estimate.value for estimate in self.estimates])
        intervals = rank_intervals(len(self.labels), self._test)
        p_first, rank_scores, by_paper = self._p_first(), self._rank_scores(), self._by_paper()
        return [
            AggregateRow(
                entrant=label,
                fewest_runs=self._fewest_runs(label),
                normalised=Number(self.estimates[i].value, self._interval_estimate(i)),
                scope=ONE_RUN if self.has_one_run(label) else self.estimates[i].scope,
                coverage=coverage(len(self.results), self._fewest_runs(label)),
                rank=ranked[i],
                places=intervals[i],
                p_first=p_first[i],
                interquartile_mean=self._pooled(estimate_interquartile_mean(self._returns(label))),
                optimality_gap=self._pooled(estimate_optimality_gap(self._returns(label))),
                profile=performance_profile(self._by_task(label), PROFILE),
                rank_score=rank_scores[i][1],
                wins=rank_scores[i][0].wins,
                top2=rank_scores[i][0].top2,
                paper_normalised=by_paper[i],
                p_improvement={other: self._p_improvement(label, other) for other in self.labels if other != label},
                unclipped=mean(_scale(result).normalise(self._counted_score(result, label)) for result in self.results),
                median=median_of_tasks(self._by_task(label)),
                failed=mean_if_known(result.by_label[label].failure_rate for result in self.results),
                without_policy=self._without_policy(label),
                task_scores=dict(zip((result.task for result in self.results), self._task_scores[label], strict=True)),
            )
            for i, label in enumerate(self.labels)
        ]

    def differences(self) -> list[EntrantDifference]:
        """Compare every two entrants over tasks, the better one first."""
        corrected = holm([test.p for test in self._tests.values()])
        return [
            EntrantDifference(self.labels[i], self.labels[j], test, p_holm)
            for ((i, j), test), p_holm in zip(self._tests.items(), corrected, strict=True)
        ]

    def has_one_run(self, label: str) -> bool:
        """Whether an entrant has a single run, or a published mean, on any task."""
        return self._fewest_runs(label) == 1

    def _fewest_runs(self, label: str) -> int:
        return min(result.by_label[label].repeats for result in self.results)

    @cached_property
    def estimates(self) -> list[Estimate]:
        return [average([self._estimate(result, label) for result in self.results]) for label in self.labels]

    def _estimate(self, result: TaskResults, label: str) -> Estimate:
        entry, scale = result.by_label[label], _scale(result)
        value = float(_run_scores(entry, scale).mean())
        if entry.matrix is None:
            return NO_ERROR_KNOWN.shifted(value)
        estimate = estimate_score(bounded_runs(_counted(entry, scale), scale))
        return replace(estimate, value=value, one_run=int(entry.repeats == 1))

    @cached_property
    def _task_scores(self) -> dict[str, list[float]]:
        """Normalised scores by task."""
        return {label: [float(runs.mean()) for runs in self._by_task(label)] for label in self.labels}

    def _by_task(self, label: str, version: int | None = None) -> list[Matrix]:
        """Normalised scores of runs by task, on the scale of the tasks or on another version of it."""
        return [
            _run_scores(result.by_label[label], _scale(result) if version is None else scales(version)[result.task])
            for result in self.results
        ]

    def _counted_score(self, result: TaskResults, label: str) -> float:
        return task_score(result.by_label[label].counted(_scale(result)))

    def _without_policy(self, label: str) -> int | None:
        runs = [run for result in self.results for run in result.by_label[label].runs]
        return sum(run.outcome is None or run.outcome.heldout is None for run in runs) if runs else None

    def sensitivity(self) -> Sensitivity | None:
        """Order the entrants under other choices; on other scales where all tasks have one."""
        used = {_scale(result).version for result in self.results}
        stored = all(_scale(result) == scales(_scale(result).version).get(result.task) for result in self.results)
        others = {f"scale {version}": version for version in SCALE_VERSIONS if stored and version not in used}
        return sensitivity(
            [result.task for result in self.results],
            {label: self._by_task(label) for label in self.labels},
            {label: [result.by_label[label].score for result in self.results] for label in self.labels},
            {name: {label: self._by_task(label, version) for label in self.labels} for name, version in others.items()},
        )

    @cached_property
    def _tests(self) -> dict[tuple[int, int], PairedTest]:
        """Tests of every two entrants, by their indices, the better one first."""
        order = sorted(range(len(self.labels)), key=lambda i: (-self.estimates[i].value, self.labels[i]))
        scores = [self._task_scores[label] for label in self.labels]
        return {(i, j): compare_by_task(scores[i], scores[j], self._bounds) for i, j in combinations(order, 2)}

    def _test(self, i: int, j: int) -> tuple[float, float | None]:
        sign, test = (1.0, self._tests[i, j]) if (i, j) in self._tests else (-1.0, self._tests[j, i])
        return sign * test.difference.value, test.p

    def _p_first(self) -> list[float | None]:
        if len(self.results) < 2 or any(map(self.has_one_run, self.labels)):
            return [None] * len(self.labels)
        scores: Matrix = np.array([self._task_scores[label] for label in self.labels]).T
        generator = np.random.default_rng([SEED, zlib.crc32(self.name.encode())])
        return [*first_over_tasks(scores, generator, self.results[0].draws)]

    def _interval_estimate(self, i: int) -> Interval | None:
        """Return the interval over runs and cases, within the scale; None where a task has one run, and where nothing
        varied."""
        has_interval = self.estimates[i].varies and not self.has_one_run(self.labels[i])
        return _clipped(self.estimates[i].interval(), self._bounds) if has_interval else None

    @property
    def _bounds(self) -> Bounds:
        return aggregate_bounds(map(_scale, self.results))

    def _pooled(self, number: Number) -> Number:
        """Return a summary of all runs. Its interval ends with the scale; from a few tasks it holds too rarely."""
        interval = number.interval if len(self.results) >= FAMILY else None
        return Number(number.value, _clipped(interval, self._bounds))

    def _returns(self, label: str) -> list[Matrix]:
        """Normalised returns (runs x cases), by task, within the scale."""
        scaled = [(result.by_label[label], _scale(result)) for result in self.results]
        return [bounded_runs(_counted(entry, scale), scale) for entry, scale in scaled]

    def _p_improvement(self, label: str, other: str) -> Number | None:
        means = ([result.by_label[name].run_means() for result in self.results] for name in (label, other))
        return improvement_over_tasks(*means)

    def _rank_scores(self) -> list[tuple[RankScore, Number | None]]:
        """Rank the complete entrants on each task; the interval is over tasks."""
        count = len(self.labels)
        task_ranks = [ranks([result.by_label[label].score for label in self.labels]) for result in self.results]
        totals = [over_tasks([(row[i], count) for row in task_ranks]) for i in range(count)]
        scores = [[rank_score(row[i], count) for row in task_ranks] for i in range(count)]
        return [(total, _rank_number(values)) for total, values in zip(totals, scores, strict=True)]

    def _by_paper(self) -> list[float | None]:
        """Return macro-means of the paper's normalised score; None where a task has none."""
        if RANDOM not in self.labels:
            return [None] * len(self.labels)
        rows = [{label: result.by_label[label].score for label in self.labels} for result in self.results]
        tables = [paper_normalised(row, row[RANDOM]) for row in rows]
        return [mean_if_known(table[label] for table in tables) for label in self.labels]


def _clipped(interval: Interval | None, bounds: Bounds) -> Interval | None:
    return interval.clipped(bounds) if interval else None


def _rank_number(scores: Sequence[float | None]) -> Number | None:
    defined = [score for score in scores if score is not None]
    return bounded_mean(defined) if len(defined) == len(scores) else None


def _counted(entry: TaskEntry, scale: Scale) -> Matrix:
    """Return the returns that count. Repeats of an anchor are one measurement: bounds hold for their mean, which is
    what a scale begins with."""
    returns = entry.counted(scale)
    return returns.mean(axis=0, keepdims=True) if entry.kind is EntryKind.ANCHOR else returns


def _run_scores(entry: TaskEntry, scale: Scale) -> Matrix:
    return scale.for_aggregates(_counted(entry, scale).mean(axis=1))


def _scale(result: TaskResults) -> Scale:
    assert result.scale is not None  # the caller leaves out tasks without one
    return result.scale
