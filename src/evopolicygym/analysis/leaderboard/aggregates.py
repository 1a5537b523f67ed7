"""Aggregates over several tasks (a collection, a family, a demand): one number for each entrant, with its interval.

An aggregate needs all of its tasks. An entrant that lacks one is reported as "n of N" and is not ranked; the others are
ranked among themselves. Entrants are compared with tasks as the sample (`stats.by_task`), which is valid with one run
of each on each task.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults
from evopolicygym.analysis.leaderboard.task_table import normalised
from evopolicygym.analysis.scores import RANDOM, Matrix, mean_if_known, paper_normalised
from evopolicygym.analysis.stats.bootstrap import (
    SEED,
    Drawn,
    interquartile_mean,
    optimality_gap,
    percentile_interval,
    performance_profile,
)
from evopolicygym.analysis.stats.by_task import EntrantDifference, PairedTest, bounded_mean, compare_by_task
from evopolicygym.analysis.stats.estimates import ONE_RUN, Estimate, Interval, Number, average
from evopolicygym.analysis.stats.first_place import first_over_tasks
from evopolicygym.analysis.stats.improvement import improvement_over_tasks
from evopolicygym.analysis.stats.measured import Coverage, coverage
from evopolicygym.analysis.stats.multiple import holm
from evopolicygym.analysis.stats.ranks import RankInterval, RankScore, over_tasks, rank_intervals, rank_score, ranks
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import Scale

NOVEL: Final = "novel/"
OWN: Final = "other tasks"
SHARED: Final = "shared tasks"
PROFILE: Final = tuple(round(0.05 * step, 2) for step in range(31))


@dataclass(frozen=True)
class AggregateRow:
    """One entrant that has all tasks, with at least ``fewest_runs`` runs of each.

    ``normalised`` is the primary aggregate. Its interval is over runs and cases of these very tasks, and missing where
    a task has one run. ``rank`` follows from it, ``places`` (the rank interval) from the differences over tasks.
    ``p_first`` and ``p_improvement``, the probability that a run of it beats a run of the other on average over tasks,
    are None where a task has one run. ``rank_score`` has an interval over tasks.
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
    profile: tuple[float, ...]
    rank_score: Number | None
    wins: int
    top2: int
    paper_normalised: float | None
    p_improvement: dict[str, Number | None]


@dataclass(frozen=True)
class Aggregate:
    """Rows of complete entrants, and the differences of every two of them, the better one first. ``incomplete`` counts
    how many of the ``tasks`` other entrants with runs have. ``caution``: what so few runs cannot say."""

    name: str
    tasks: int
    standings: tuple[AggregateRow, ...]
    differences: tuple[EntrantDifference, ...]
    incomplete: dict[str, int]
    caution: str | None


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
    return Aggregate(name, len(tasks), tuple(standings), tuple(differences), incomplete, caution)


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
                interquartile_mean=self._pooled(i, interquartile_mean),
                optimality_gap=self._pooled(i, optimality_gap),
                profile=tuple(performance_profile(self._run_scores(label), PROFILE).tolist()),
                rank_score=rank_scores[i][1],
                wins=rank_scores[i][0].wins,
                top2=rank_scores[i][0].top2,
                paper_normalised=by_paper[i],
                p_improvement={other: self._p_improvement(label, other) for other in self.labels if other != label},
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
        return normalised(result.by_label[label].estimate(), _scale(result))

    @cached_property
    def _task_scores(self) -> dict[str, list[float]]:
        """Normalised scores by task."""
        return {
            label: [
                (result.by_label[label].score - _scale(result).low) / _scale(result).unit for result in self.results
            ]
            for label in self.labels
        }

    @cached_property
    def _tests(self) -> dict[tuple[int, int], PairedTest]:
        """Tests of every two entrants, by their indices, the better one first."""
        order = sorted(range(len(self.labels)), key=lambda i: (-self.estimates[i].value, self.labels[i]))
        scores = [self._task_scores[label] for label in self.labels]
        return {(i, j): compare_by_task(scores[i], scores[j]) for i, j in combinations(order, 2)}

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
        """Return the interval over runs and cases; None where a task has one run."""
        return None if self.has_one_run(self.labels[i]) else self.estimates[i].interval()

    def _pooled(self, i: int, summary: Callable[[Drawn], Drawn]) -> Number:
        """Summarize the runs of all tasks together, with an interval from the draws."""
        value, estimate = float(summary(self._run_scores(self.labels[i]))), self.estimates[i]
        if self.has_one_run(self.labels[i]):
            return Number(value, None)
        drawn = np.concatenate([_draws(result, self.labels[i]) for result in self.results])
        return Number(value, percentile_interval(value, summary(drawn), estimate.degrees_of_freedom))

    def _run_scores(self, label: str) -> Drawn:
        return np.concatenate([_scaled(result, result.by_label[label].run_means()) for result in self.results])

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


def _rank_number(scores: Sequence[float | None]) -> Number | None:
    known = [score for score in scores if score is not None]
    return bounded_mean(known) if len(known) == len(scores) else None


def _draws(result: TaskResults, label: str) -> Drawn:
    return _scaled(result, result.drawn[label])


def _scaled(result: TaskResults, scores: Drawn) -> Drawn:
    scale = _scale(result)
    return np.asarray((scores - scale.low) / scale.unit)


def _scale(result: TaskResults) -> Scale:
    assert result.scale is not None  # the caller leaves out tasks without one
    return result.scale
