"""A collection, a family or a demand: several tasks as one number for each entrant, and how sure it is.

An aggregate needs all its tasks. Who lacks one gets "n of N" and takes part in no rank: the others are ranked among
those who are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults
from evopolicygym.analysis.leaderboard.task_table import normalised
from evopolicygym.analysis.scores import RANDOM, mean_if_known, paper_normalised
from evopolicygym.analysis.stats.aggregates import (
    interquartile_mean,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from evopolicygym.analysis.stats.bootstrap import Drawn, percentile_interval
from evopolicygym.analysis.stats.coverage import Coverage, coverage
from evopolicygym.analysis.stats.estimates import Estimate, Number, average
from evopolicygym.analysis.stats.ranks import RankInterval, RankScore, drawn_ranks, over_tasks, rank_intervals, ranks
from evopolicygym.reference import paper
from evopolicygym.reference.scale import scales

PROFILE: Final = tuple(round(0.05 * step, 2) for step in range(31))


@dataclass(frozen=True)
class AggregateRow:
    """One complete entrant. ``normalised`` is the primary aggregate, and ``rank`` the place by it. ``p_improvement`` is
    the probability that a run of it scores more than one of the other, on average over tasks."""

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
    """``incomplete`` says how many of the ``tasks`` other entrants with runs have."""

    name: str
    tasks: int
    standings: tuple[AggregateRow, ...]
    incomplete: dict[str, int]


def task_groups() -> dict[str, tuple[str, ...]]:
    """What is summed up: the collection, its families, its demands."""
    return {"core16": paper.core16(), **paper.families(), **paper.demands()}


def aggregate(name: str, tasks: Sequence[str], fields: Mapping[str, TaskResults]) -> Aggregate:
    """Over the fields of the tasks, as far as they are there."""
    present = [fields[task] for task in tasks if task in fields]
    has = {label: sum(label in one.by_label for one in present) for one in present for label in one.by_label}
    complete = [label for label, count in has.items() if count == len(tasks)]
    standings = _Complete(present, complete).standings() if complete else []
    standings.sort(key=lambda one: (one.rank, one.entrant))
    played = {entry.label for one in present for entry in one.entries if entry.kind is EntryKind.RUNS}
    rest = {label: count for label, count in sorted(has.items()) if count < len(tasks) and label in played}
    return Aggregate(name, len(tasks), tuple(standings), rest)


@dataclass(frozen=True, eq=False)
class _Complete:
    """Entrants that have all the tasks; the methods give a list with an item for each, in the order of ``labels``."""

    fields: list[TaskResults]
    labels: list[str]

    def standings(self) -> list[AggregateRow]:
        placed = ranks([estimate.value for estimate in self.estimates])
        first = (drawn_ranks(self._drawn_means()) == 1).mean(axis=1)
        possible = rank_intervals(len(self.labels), self._difference)
        rank_scores, by_paper = self._rank_scores(), self._by_paper()
        return [
            AggregateRow(
                entrant=label,
                normalised=Number(self.estimates[i].value, self.estimates[i].interval()),
                scope=self.estimates[i].scope,
                coverage=coverage(len(self.fields), min(one.by_label[label].repeats for one in self.fields)),
                rank=placed[i],
                places=possible[i],
                p_first=float(first[i]),
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
        return [average([self._estimate(one, label) for one in self.fields]) for label in self.labels]

    def _estimate(self, one: TaskResults, label: str) -> Estimate:
        return normalised(one.by_label[label].estimate(), scales()[one.task])

    def _difference(self, i: int, j: int) -> Estimate:
        """Paired by case within each task."""
        first, second = self.labels[i], self.labels[j]
        pairs = [(one.by_label[first].minus(one.by_label[second]), scales()[one.task]) for one in self.fields]
        return average([pair.scaled(1.0 / scale.unit) for pair, scale in pairs])

    def _drawn_means(self) -> Drawn:
        return np.stack([np.mean([_draws(one, label).mean(axis=0) for one in self.fields], axis=0)
                         for label in self.labels])  # fmt: skip

    def _pooled(self, i: int, of: Callable[[Drawn], Drawn]) -> Number:
        """A summary of the runs of all tasks together."""
        value, estimate = float(of(self._run_scores(self.labels[i]))), self.estimates[i]
        if not estimate.has_error:
            return Number(value, None)
        drawn = np.concatenate([_draws(one, self.labels[i]) for one in self.fields])
        return Number(value, percentile_interval(value, of(drawn), estimate.degrees_of_freedom))

    def _run_scores(self, label: str) -> Drawn:
        return np.concatenate([_scaled(one, one.by_label[label].run_means()) for one in self.fields])

    def _p_improvement(self, label: str, other: str) -> float:
        means = ([one.by_label[name].run_means() for one in self.fields] for name in (label, other))
        return float(probability_of_improvement(*means))

    def _rank_scores(self) -> list[tuple[RankScore, Number | None]]:
        """Among the complete, on each task; the interval from the ranks in the draws."""
        placed = [ranks([one.by_label[label].score for label in self.labels]) for one in self.fields]
        drawn = [drawn_ranks(np.stack([one.drawn[label].mean(axis=0) for label in self.labels])) for one in self.fields]
        mean_rank, others = np.mean(drawn, axis=0), len(self.labels) - 1
        totals = [over_tasks([(row[i], len(self.labels)) for row in placed]) for i in range(len(self.labels))]
        return [(total, _rank_number(total, mean_rank[i], others)) for i, total in enumerate(totals)]

    def _by_paper(self) -> list[float | None]:
        """Macro-mean of the paper's normalised score; none when a task has none."""
        if RANDOM not in self.labels:
            return [None] * len(self.labels)
        rows = [{label: one.by_label[label].score for label in self.labels} for one in self.fields]
        tables = [paper_normalised(row, row[RANDOM]) for row in rows]
        return [mean_if_known(table[label] for table in tables) for label in self.labels]


def _rank_number(total: RankScore, mean_rank: Drawn, others: int) -> Number | None:
    if total.score is None:
        return None
    return Number(total.score, percentile_interval(total.score, 1.0 - (mean_rank - 1.0) / others, bounds=(0.0, 1.0)))


def _draws(one: TaskResults, label: str) -> Drawn:
    return _scaled(one, one.drawn[label])


def _scaled(one: TaskResults, scores: Drawn) -> Drawn:
    scale = scales()[one.task]
    return np.asarray((scores - scale.low) / scale.unit)
