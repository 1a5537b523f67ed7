"""The leaderboard's table of one task: a row for each entrant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.gain import EntrantGain, entrant_gain
from evopolicygym.analysis.leaderboard.selection import Selections, mean_candidates, selections
from evopolicygym.analysis.leaderboard.task_results import EntryKind, MissingRun, TaskEntry, TaskResults, TrivialScores
from evopolicygym.analysis.scores import RANDOM, paper_normalised
from evopolicygym.analysis.stats.estimates import Coverage, Estimate, Interval, coverage
from evopolicygym.analysis.stats.ranks import RankInterval, drawn_ranks, rank_intervals, rank_score, ranks
from evopolicygym.reference.anchors import Scale


@dataclass(frozen=True)
class TaskRow:
    """One entrant.

    ``places`` is the rank interval. ``p_first`` is the share of draws in which the entrant has rank 1, alone or shared.
    ``beats_trivial`` is None where no trivial policy was measured on the same cases, and for the random policy itself.
    ``coverage`` is the measured coverage of intervals from so many runs. ``checkpoints`` is the mean number of distinct
    checkpoints that hidden validation chose among. ``gain`` is what the feedback was worth. Both are None for rows that
    are not runs.
    """

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
    gain: EntrantGain | None


@dataclass(frozen=True)
class TaskTable:
    """Table of one task. ``entrants`` is the N of the rank score. ``trivial``: scores of trivial policies."""

    task: str
    comparable_id: str
    cases: int
    entrants: int
    rows: tuple[TaskRow, ...]
    trivial: dict[str, float]
    no_anchors: str | None
    missing: tuple[MissingRun, ...]


def task_table(results: TaskResults) -> TaskTable:
    """Build the table of a task, best entrant first."""
    rows = sorted(_rows(results), key=lambda row: (row.rank, row.entrant))
    anchors = results.anchors
    return TaskTable(
        task=results.task,
        comparable_id=results.comparable_id,
        cases=results.cases,
        entrants=len(rows),
        rows=tuple(rows),
        trivial=anchors.means if isinstance(anchors, TrivialScores) else {},
        no_anchors=None if isinstance(anchors, TrivialScores) else anchors.reason,
        missing=results.missing,
    )


def _rows(results: TaskResults) -> list[TaskRow]:
    entries = results.entries
    if not entries:
        return []
    scores = {entry.label: entry.score for entry in entries}
    random = scores.get(RANDOM)
    by_paper = dict.fromkeys(scores) if random is None else paper_normalised(scores, random)
    intervals = rank_intervals(len(entries), lambda i, j: entries[i].minus(entries[j]))
    p_first = _p_first(results)
    ranked = zip(entries, ranks(list(scores.values())), intervals, strict=True)
    return [
        _row(results, entry, rank, interval, p_first[entry.label], by_paper[entry.label])
        for entry, rank, interval in ranked
    ]


def _row(
    results: TaskResults, entry: TaskEntry, rank: int, places: RankInterval, p_first: float, by_paper: float | None
) -> TaskRow:
    estimate = entry.estimate()
    scaled = normalised(estimate, results.scale) if results.scale else None
    return TaskRow(
        entrant=entry.label,
        kind=entry.kind,
        runs=entry.repeats,
        score=entry.score,
        interval=estimate.interval(),
        scope=estimate.scope,
        coverage=coverage(1, entry.repeats),
        rank=rank,
        places=places,
        rank_score=rank_score(rank, len(results.entries)),
        p_first=p_first,
        paper_normalised=by_paper,
        normalised=scaled.value if scaled else None,
        normalised_interval=scaled.interval() if scaled else None,
        beats_trivial=_beats_trivial(results, entry),
        flags=entry.flags,
        selection=selections(entry.runs),
        checkpoints=mean_candidates(entry.runs),
        gain=entrant_gain(entry.runs),
    )


def normalised(estimate: Estimate, scale: Scale) -> Estimate:
    """Express an estimate in units of the task's normalisation scale."""
    return estimate.shifted(-scale.low).scaled(1.0 / scale.unit)


def _p_first(results: TaskResults) -> dict[str, float]:
    means = np.stack([results.drawn[entry.label].mean(axis=0) for entry in results.entries])
    share = (drawn_ranks(means) == 1).mean(axis=1)
    return {entry.label: float(value) for entry, value in zip(results.entries, share, strict=True)}


def _beats_trivial(results: TaskResults, entry: TaskEntry) -> bool | None:
    if not isinstance(results.anchors, TrivialScores) or entry.kind is EntryKind.ANCHOR:
        return None
    return entry.score > results.anchors.means[results.anchors.best]
