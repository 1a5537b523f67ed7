"""One table of everything that was measured on the paper's held-out cases: its agents, trivial policies, baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from evopolicygym.analysis.entrants import PUBLISHED
from evopolicygym.analysis.leaderboard.sensitivity import (
    RunScores,
    Sensitivity,
    median_of_tasks,
    rank_scores,
    sensitivity,
)
from evopolicygym.analysis.scores import mean
from evopolicygym.analysis.stats.pooled import interquartile_mean, optimality_gap
from evopolicygym.analysis.stats.ranks import ranks
from evopolicygym.reference import CURRENT_SCALE, SCALE_VERSIONS
from evopolicygym.reference.anchors import stored_anchors
from evopolicygym.reference.baselines import BaselineRun, stored_baselines
from evopolicygym.reference.paper import BUDGET, HELDOUT_CASES, RANDOM, Table
from evopolicygym.reference.scales import scales

TRIVIAL: Final = ("random", "zero", "constant")
Scores = Mapping[str, Sequence[float]]  # scores of runs by task


@dataclass(frozen=True)
class ReferenceRow:
    """One entrant with all tasks, at its ``rank`` by ``score``: the mean over tasks, each run from 0 to 1."""

    entrant: str
    rank: int
    score: float
    unclipped: float
    interquartile_mean: float
    median: float
    optimality_gap: float
    rank_score: float


@dataclass(frozen=True)
class ReferenceTable:
    """Complete entrants, the best one first. ``incomplete`` counts the tasks of the others."""

    scale_version: int
    tasks: int
    rows: tuple[ReferenceRow, ...]
    incomplete: dict[str, int]
    sensitivity: Sensitivity | None


def reference_table(table1: Table, baselines: Sequence[BaselineRun] | None = None) -> ReferenceTable:
    """Put the agents of Table 1, the trivial policies and the stored baselines on one scale."""
    tasks = [task for task in table1 if task in scales()]
    entrants = {
        **_published(table1),
        **_trivial(tasks),
        **_baselines(stored_baselines() if baselines is None else baselines),
    }
    complete = {name: scores for name, scores in entrants.items() if set(tasks) <= scores.keys()}
    returns = {name: [mean(scores[task]) for task in tasks] for name, scores in complete.items()}
    by_version = {
        version: {name: _normalised(scores, tasks, version) for name, scores in complete.items()}
        for version in SCALE_VERSIONS
    }
    current = by_version.pop(CURRENT_SCALE)
    others = {f"scale {version}": scores for version, scores in by_version.items()}
    return ReferenceTable(
        scale_version=CURRENT_SCALE,
        tasks=len(tasks),
        rows=tuple(_rows(tasks, current, returns)),
        incomplete={name: len(scores) for name, scores in entrants.items() if name not in complete},
        sensitivity=sensitivity(tasks, current, returns, others),
    )


def _published(table1: Table) -> dict[str, Scores]:
    agents = dict.fromkeys(name for row in table1.values() for name in row if name != RANDOM)
    return {
        f"{agent}{PUBLISHED}": {task: [row[agent]] for task, row in table1.items() if agent in row} for agent in agents
    }


def _trivial(tasks: Sequence[str]) -> dict[str, Scores]:
    """Return the trivial policies. Ten repeats of the random one are one measurement: its mean is the lower end."""
    anchors = stored_anchors().tasks
    return {
        f"{name} policy": {task: [anchors[task].trivial()[name].mean(HELDOUT_CASES)] for task in tasks}
        for name in TRIVIAL
    }


def _baselines(rows: Sequence[BaselineRun]) -> dict[str, Scores]:
    scores: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.budget == BUDGET and row.splits_id == "paper" and row.score is not None:
            scores.setdefault(row.agent, {}).setdefault(row.task, []).append(row.score)
    return dict(scores)


def _normalised(scores: Scores, tasks: Sequence[str], version: int) -> list[RunScores]:
    return [scales(version)[task].for_aggregates(np.array(scores[task])) for task in tasks]


def _rows(
    tasks: Sequence[str], scores: Mapping[str, list[RunScores]], returns: Mapping[str, list[float]]
) -> list[ReferenceRow]:
    means = {name: mean(float(runs.mean()) for runs in by_task) for name, by_task in scores.items()}
    by_paper = rank_scores(returns)
    rows = [
        ReferenceRow(
            entrant=name,
            rank=rank,
            score=means[name],
            unclipped=mean(scales()[task].normalise(value) for task, value in zip(tasks, returns[name], strict=True)),
            interquartile_mean=interquartile_mean(np.concatenate(by_task)),
            median=median_of_tasks(by_task),
            optimality_gap=optimality_gap(np.concatenate(by_task)),
            rank_score=by_paper[name],
        )
        for (name, by_task), rank in zip(scores.items(), ranks(list(means.values())), strict=True)
    ]
    return sorted(rows, key=lambda row: (row.rank, row.entrant))
