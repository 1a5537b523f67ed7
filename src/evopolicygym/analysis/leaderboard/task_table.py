"""The leaderboard's table of one task: a row for each entrant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from evopolicygym.analysis.anchors import TrivialScores
from evopolicygym.analysis.entrants import RANDOM
from evopolicygym.analysis.formatting import misleading_warning
from evopolicygym.analysis.gain import EntrantGain, entrant_gain
from evopolicygym.analysis.leaderboard.selection import Selections, mean_candidates, selections
from evopolicygym.analysis.leaderboard.task_results import EntryKind, MissingRun, TaskEntry, TaskResults
from evopolicygym.analysis.scores import paper_normalised, task_score
from evopolicygym.analysis.stats.estimates import ONE_RUN, Interval, score_interval
from evopolicygym.analysis.stats.first_place import first_on_task
from evopolicygym.analysis.stats.measured import Coverage, coverage, misleading_rate
from evopolicygym.analysis.stats.ranks import RankInterval, rank_intervals, rank_score, ranks

SURE: Final = 0.95  # P(first) above it is checked by `benchmarks/coverage.py`


@dataclass(frozen=True)
class TaskRow:
    """One entrant.

    ``places`` is the rank interval; those of all entrants hold at once. ``p_first`` is the probability that its true
    score is the highest; None where an entrant has one run. ``policies`` is the number of distinct policies that its
    runs selected.
    ``beats_trivial`` is None where no trivial policy was measured on the same cases, and for the random policy itself.
    ``coverage`` is the measured coverage of intervals from so many runs. ``checkpoints`` is the mean number of distinct
    checkpoints that hidden validation chose among. ``gain`` is what the feedback was worth. ``failed`` is the share of
    held-out episodes that failed. All three are None for rows that are not runs. ``normalised`` is not bounded to 0
    and 1, but on scale 2 a failed episode counts as 0.
    """

    entrant: str
    kind: EntryKind
    runs: int
    policies: int | None
    score: float
    interval: Interval | None
    scope: str
    coverage: Coverage | None
    rank: int
    places: RankInterval
    rank_score: float | None
    p_first: float | None
    paper_normalised: float | None
    normalised: float | None
    normalised_interval: Interval | None
    beats_trivial: bool | None
    flags: tuple[str, ...]
    selection: Selections | None
    checkpoints: float | None
    gain: EntrantGain | None
    failed: float | None


@dataclass(frozen=True)
class TaskTable:
    """Table of one task. ``entrants`` is the N of the rank score. ``trivial``: scores of trivial policies. ``tests``:
    differences that the places rest on, over which Holm's method corrects. ``caution``: what so few runs cannot say."""

    task: str
    comparable_id: str
    cases: int
    entrants: int
    tests: int
    caution: str | None
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
        tests=math.comb(sum(entry.repeats > 1 for entry in results.entries), 2),
        caution=_caution(results, rows),
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
    intervals = rank_intervals(len(entries), lambda i, j: entries[i].test(entries[j]))
    p_first = _p_first(results)
    ranked = zip(entries, ranks(list(scores.values())), intervals, strict=True)
    return [
        _row(results, entry, rank, interval, p_first[entry.label], by_paper[entry.label])
        for entry, rank, interval in ranked
    ]


def _row(
    results: TaskResults,
    entry: TaskEntry,
    rank: int,
    places: RankInterval,
    p_first: float | None,
    by_paper: float | None,
) -> TaskRow:
    estimate, scale = entry.estimate(), results.scale
    interval = None if entry.matrix is None else score_interval(entry.matrix, results.bounds)
    return TaskRow(
        entrant=entry.label,
        kind=entry.kind,
        runs=entry.repeats,
        policies=entry.selected_policies,
        score=entry.score,
        interval=interval,
        scope=estimate.scope,
        coverage=coverage(1, entry.repeats),
        rank=rank,
        places=places,
        rank_score=rank_score(rank, len(results.entries)),
        p_first=p_first,
        paper_normalised=by_paper,
        normalised=scale.normalise(task_score(entry.counted(scale))) if scale else None,
        normalised_interval=_normalised_interval(results, entry),
        beats_trivial=_beats_trivial(results, entry),
        flags=entry.flags,
        selection=selections(entry.runs),
        checkpoints=mean_candidates(entry.runs),
        gain=entrant_gain(entry.runs),
        failed=entry.failure_rate,
    )


def _normalised_interval(results: TaskResults, entry: TaskEntry) -> Interval | None:
    scale = results.scale
    if scale is None or entry.matrix is None:
        return None
    interval = score_interval(entry.counted(scale), results.bounds)
    return Interval(scale.normalise(interval.low), scale.normalise(interval.high)) if interval else None


def _p_first(results: TaskResults) -> dict[str, float | None]:
    matrices = [entry.matrix for entry in results.entries if entry.matrix is not None]
    shares = (
        first_on_task(matrices, results.generator, results.draws) if len(matrices) == len(results.entries) else None
    )
    return {entry.label: shares[i] if shares else None for i, entry in enumerate(results.entries)}


def _caution(results: TaskResults, rows: Sequence[TaskRow]) -> str | None:
    played = [entry for entry in results.entries if entry.kind is EntryKind.RUNS]
    single = [entry.label for entry in played if entry.repeats == 1]
    if single and len(single) == len(played):
        return ONE_RUN
    cautions = [f"one run of {', '.join(single)}: how its runs differ is unknown"] if single else []
    fewest = min((entry.repeats for entry in played if entry.repeats > 1), default=0)
    if any(row.places != RankInterval(1, len(rows)) for row in rows):
        cautions += misleading_warning("ranks that differ", misleading_rate("p", fewest))
    if any(row.p_first is not None and row.p_first > SURE for row in rows):
        cautions += misleading_warning(f"P(first) above {SURE}", misleading_rate("first", fewest))
    return "; ".join(cautions) or None


def _beats_trivial(results: TaskResults, entry: TaskEntry) -> bool | None:
    if not isinstance(results.anchors, TrivialScores) or entry.kind is EntryKind.ANCHOR:
        return None
    return entry.score > results.anchors.means[results.anchors.best]
