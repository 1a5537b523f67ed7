"""The table of one task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.leaderboard.selection import Selections, mean_candidates, selections
from evopolicygym.analysis.leaderboard.task_results import EntryKind, MissingRun, TaskEntry, TaskResults, TrivialScores
from evopolicygym.analysis.scores import RANDOM, paper_normalised
from evopolicygym.analysis.stats.coverage import Coverage, coverage
from evopolicygym.analysis.stats.estimates import Estimate, Interval
from evopolicygym.analysis.stats.ranks import RankInterval, drawn_ranks, rank_intervals, rank_score, ranks
from evopolicygym.reference.scale import Scale


@dataclass(frozen=True)
class TaskRow:
    """``p_first`` is the share of draws in which the entrant is first, or shares first place. ``beats_trivial`` is null
    where no trivial policy was measured on the same cases, and for the random policy itself. ``coverage`` is what
    intervals of so many runs were measured to hold. ``checkpoints``: distinct ones that hidden validation chose among,
    mean over runs; null for rows that are not runs."""

    entrant: str
    kind: EntryKind
    runs: int
    score: float
    interval: Interval | None
    scope: str
    coverage: Coverage | None
    rank: int
    places: RankInterval
    rank_score: float | None
    p_first: float
    paper_normalised: float | None
    normalised: float | None
    normalised_interval: Interval | None
    beats_trivial: bool | None
    flags: tuple[str, ...]
    selection: Selections | None
    checkpoints: float | None


@dataclass(frozen=True)
class TaskTable:
    """``entrants`` is the N of the rank score. ``trivial`` are lines to beat, never entrants, but for random."""

    task: str
    comparable_id: str
    cases: int
    entrants: int
    rows: tuple[TaskRow, ...]
    trivial: dict[str, float]
    no_anchors: str | None
    missing: tuple[MissingRun, ...]


def task_table(field: TaskResults) -> TaskTable:
    rows = sorted(_rows(field), key=lambda row: (row.rank, row.entrant))
    anchors = field.anchors
    return TaskTable(
        task=field.task,
        comparable_id=field.comparable_id,
        cases=field.cases,
        entrants=len(rows),
        rows=tuple(rows),
        trivial=anchors.means if isinstance(anchors, TrivialScores) else {},
        no_anchors=None if isinstance(anchors, TrivialScores) else anchors.why,
        missing=field.missing,
    )


def _rows(field: TaskResults) -> list[TaskRow]:
    entries = field.entries
    if not entries:
        return []
    scores = {entry.label: entry.score for entry in entries}
    random = scores.get(RANDOM)
    by_paper = dict.fromkeys(scores) if random is None else paper_normalised(scores, random)
    possible = rank_intervals(len(entries), lambda i, j: entries[i].minus(entries[j]))
    first = _first(field)
    placed = zip(entries, ranks(list(scores.values())), possible, strict=True)
    return [_row(field, entry, rank, held, first[entry.label], by_paper[entry.label]) for entry, rank, held in placed]


def _row(
    field: TaskResults, entry: TaskEntry, rank: int, held: RankInterval, first: float, by_paper: float | None
) -> TaskRow:
    estimate = entry.estimate()
    scaled = normalised(estimate, field.scale) if field.scale else None
    return TaskRow(
        entrant=entry.label,
        kind=entry.kind,
        runs=entry.repeats,
        score=entry.score,
        interval=estimate.interval(),
        scope=estimate.scope,
        coverage=coverage(1, entry.repeats),
        rank=rank,
        places=held,
        rank_score=rank_score(rank, len(field.entries)),
        p_first=first,
        paper_normalised=by_paper,
        normalised=scaled.value if scaled else None,
        normalised_interval=scaled.interval() if scaled else None,
        beats_trivial=_beats_trivial(field, entry),
        flags=entry.flags,
        selection=selections(entry.runs),
        checkpoints=mean_candidates(entry.runs),
    )


def normalised(estimate: Estimate, scale: Scale) -> Estimate:
    return estimate.shifted(-scale.low).scaled(1.0 / scale.unit)


def _first(field: TaskResults) -> dict[str, float]:
    means = np.stack([field.drawn[entry.label].mean(axis=0) for entry in field.entries])
    share = (drawn_ranks(means) == 1).mean(axis=1)
    return {entry.label: float(value) for entry, value in zip(field.entries, share, strict=True)}


def _beats_trivial(field: TaskResults, entry: TaskEntry) -> bool | None:
    if not isinstance(field.anchors, TrivialScores) or entry.kind is EntryKind.ANCHOR:
        return None
    return entry.score > field.anchors.means[field.anchors.best]
