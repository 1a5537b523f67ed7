"""Aggregates over several tasks (a collection, a family, a demand): one number for each entrant, with its interval.

An aggregate needs all of its tasks. An entrant that lacks one is reported as "n of N" and is not ranked; the others are
ranked among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults
from evopolicygym.analysis.leaderboard.task_table import normalised
from evopolicygym.analysis.scores import RANDOM, mean_if_known, paper_normalised
from evopolicygym.analysis.stats.bootstrap import (
    Drawn,
    interquartile_mean,
    optimality_gap,
    percentile_interval,
    performance_profile,
    probability_of_improvement,
)
from evopolicygym.analysis.stats.estimates import Coverage, Estimate, Number, average, coverage
from evopolicygym.analysis.stats.ranks import RankInterval, RankScore, drawn_ranks, over_tasks, rank_intervals, ranks
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import Scale

NOVEL: Final = "novel/"
OWN: Final = "other tasks"
PROFILE: Final = tuple(round(0.05 * step, 2) for step in range(31))


@dataclass(frozen=True)
class AggregateRow:
    """One entrant that has all tasks.

    ``normalised`` is the primary aggregate; ``rank`` and ``places`` (the rank interval) follow from it.
    ``p_improvement`` is the probability that a run of it beats a run of the other, on average over tasks.
    """

    entrant: str
    normalised: Number
    scope: str
    coverage: Coverage | None
    rank: int
    places: RankInterval
    p_first: float
    interquartile_mean: Number
    optimality_gap: Number
    profile: tuple[float, ...]
    rank_score: Number | None
    wins: int
    top2: int
    paper_normalised: float | None
    p_improvement: dict[str, float]


@dataclass(frozen=True)
class Aggregate:
    """Rows of complete entrants. ``incomplete`` counts how many of the ``tasks`` other entrants with runs have."""

    name: str
    tasks: int
    standings: tuple[AggregateRow, ...]
    incomplete: dict[str, int]


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


def aggregate(name: str, tasks: Sequence[str], results: Mapping[str, TaskResults]) -> Aggregate:
    """Aggregate the results of the tasks, as far as they are there."""
    present = [results[task] for task in tasks if task in results]
    counts = {
        label: sum(label in result.by_label for result in present) for result in present for label in result.by_label
    }
    complete = [label for label, count in counts.items() if count == len(tasks)]
    standings = _CompleteEntrants(present, complete).standings() if complete else []
    standings.sort(key=lambda row: (row.rank, row.entrant))
    played = {entry.label for result in present for entry in result.entries if entry.kind is EntryKind.RUNS}
    incomplete = {label: count for label, count in sorted(counts.items()) if count < len(tasks) and label in played}
    return Aggregate(name, len(tasks), tuple(standings), incomplete)


@dataclass(frozen=True, eq=False)
class _CompleteEntrants:
    """Entrants that have all tasks. Methods return a list with an item for each, in the order of ``labels``."""

    results: list[TaskResults]
    labels: list[str]

    def standings(self) -> list[AggregateRow]:
        ranked = ranks([estimate.value for estimate in self.estimates])
        p_first = (drawn_ranks(self._drawn_means()) == 1).mean(axis=1)
        intervals = rank_intervals(len(self.labels), self._difference)
        rank_scores, by_paper = self._rank_scores(), self._by_paper()
        return [
            AggregateRow(
                entrant=label,
                normalised=Number(self.estimates[i].value, self.estimates[i].interval()),
                scope=self.estimates[i].scope,
                coverage=coverage(len(self.results), min(result.by_label[label].repeats for result in self.results)),
                rank=ranked[i],
                places=intervals[i],
                p_first=float(p_first[i]),
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

    @cached_property
    def estimates(self) -> list[Estimate]:
        return [average([self._estimate(result, label) for result in self.results]) for label in self.labels]

    def _estimate(self, result: TaskResults, label: str) -> Estimate:
        return normalised(result.by_label[label].estimate(), _scale(result))

    def _difference(self, i: int, j: int) -> Estimate:
        """Estimate the normalised difference of two entrants, paired by case within each task."""
        first, second = self.labels[i], self.labels[j]
        pairs = [(result.by_label[first].minus(result.by_label[second]), _scale(result)) for result in self.results]
        return average([pair.scaled(1.0 / scale.unit) for pair, scale in pairs])

    def _drawn_means(self) -> Drawn:
        return np.stack([np.mean([_draws(result, label).mean(axis=0) for result in self.results], axis=0)
                         for label in self.labels])  # fmt: skip

    def _pooled(self, i: int, summary: Callable[[Drawn], Drawn]) -> Number:
        """Summarize the runs of all tasks together, with an interval from the draws."""
        value, estimate = float(summary(self._run_scores(self.labels[i]))), self.estimates[i]
        if not estimate.has_error:
            return Number(value, None)
        drawn = np.concatenate([_draws(result, self.labels[i]) for result in self.results])
        return Number(value, percentile_interval(value, summary(drawn), estimate.degrees_of_freedom))

    def _run_scores(self, label: str) -> Drawn:
        return np.concatenate([_scaled(result, result.by_label[label].run_means()) for result in self.results])

    def _p_improvement(self, label: str, other: str) -> float:
        means = ([result.by_label[name].run_means() for result in self.results] for name in (label, other))
        return float(probability_of_improvement(*means))

    def _rank_scores(self) -> list[tuple[RankScore, Number | None]]:
        """Rank the complete entrants on each task; the interval comes from the ranks in the draws."""
        task_ranks = [ranks([result.by_label[label].score for label in self.labels]) for result in self.results]
        drawn = [
            drawn_ranks(np.stack([result.drawn[label].mean(axis=0) for label in self.labels]))
            for result in self.results
        ]
        mean_rank, others = np.mean(drawn, axis=0), len(self.labels) - 1
        totals = [over_tasks([(row[i], len(self.labels)) for row in task_ranks]) for i in range(len(self.labels))]
        return [(total, _rank_number(total, mean_rank[i], others)) for i, total in enumerate(totals)]

    def _by_paper(self) -> list[float | None]:
        """Return macro-means of the paper's normalised score; None where a task has none."""
        if RANDOM not in self.labels:
            return [None] * len(self.labels)
        rows = [{label: result.by_label[label].score for label in self.labels} for result in self.results]
        tables = [paper_normalised(row, row[RANDOM]) for row in rows]
        return [mean_if_known(table[label] for table in tables) for label in self.labels]


def _rank_number(total: RankScore, mean_rank: Drawn, others: int) -> Number | None:
    if total.score is None:
        return None
    return Number(total.score, percentile_interval(total.score, 1.0 - (mean_rank - 1.0) / others, bounds=(0.0, 1.0)))


def _draws(result: TaskResults, label: str) -> Drawn:
    return _scaled(result, result.drawn[label])


def _scaled(result: TaskResults, scores: Drawn) -> Drawn:
    scale = _scale(result)
    return np.asarray((scores - scale.low) / scale.unit)


def _scale(result: TaskResults) -> Scale:
    assert result.scale is not None  # the caller leaves out tasks without one
    return result.scale
