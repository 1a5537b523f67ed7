"""Results on one task under one comparable_id: entrants with runs, the random policy, published rows if asked for.

The random policy is an entrant; other trivial policies are scores to beat. Their anchors count only if they were
measured as the runs were: same cases, versions and limits.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.anchors import NoAnchors, TrivialScores, trivial_scores
from evopolicygym.analysis.entrants import PUBLISHED, RANDOM
from evopolicygym.analysis.leaderboard.boards import TaskRuns
from evopolicygym.analysis.scales import bounds_of, counted_returns, scale_of
from evopolicygym.analysis.scores import Matrix, RunScore, selected_policies, task_score
from evopolicygym.analysis.stats.estimates import Estimate, difference_p_value, estimate_score
from evopolicygym.analysis.stats.first_place import DRAWS, SEED
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import AnchorFile
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds
from evopolicygym.reference.scales import Scale
from evopolicygym.run_record import RunRecord

NO_ERROR_KNOWN = Estimate(0.0, one_run=1, one_case=1)


class EntryKind(StrEnum):
    """Where an entry comes from. For a published one only the mean is known."""

    RUNS = "runs"
    ANCHOR = "anchor"
    PAPER = "paper"


@dataclass(frozen=True, eq=False)
class TaskEntry:
    """One entrant on one task: its score, and the returns (runs x cases) where they are known. ``failed``: which
    episodes failed; None where no run played them."""

    label: str
    kind: EntryKind
    score: float
    matrix: Matrix | None
    runs: tuple[RunRecord, ...] = ()
    flags: tuple[str, ...] = ()
    failed: NDArray[np.bool_] | None = None

    @property
    def repeats(self) -> int:
        return 1 if self.matrix is None else len(self.matrix)

    @property
    def selected_policies(self) -> int | None:
        """Number of distinct policies that the runs selected; None for entries without runs."""
        return selected_policies(self.runs) if self.runs else None

    def run_means(self) -> Matrix:
        return np.array([self.score]) if self.matrix is None else np.asarray(self.matrix.mean(axis=1))

    @property
    def failure_rate(self) -> float | None:
        """Share of held-out episodes that failed; a run without an ``ok`` submission has only such."""
        return None if self.failed is None else float(self.failed.mean())

    def counted(self, scale: Scale) -> Matrix:
        """Return the returns that count for a normalised score; of a published row its mean alone."""
        return np.array([[self.score]]) if self.matrix is None else counted_returns(self.matrix, self.failed, scale)

    def estimate(self) -> Estimate:
        return NO_ERROR_KNOWN.shifted(self.score) if self.matrix is None else estimate_score(self.matrix)

    def test(self, other: TaskEntry) -> tuple[float, float | None]:
        """Return the difference to another entry, and its p-value: paired by case, and None where either has one run or
        only a published mean."""
        if self.matrix is None or other.matrix is None:
            return self.score - other.score, None
        return self.score - other.score, difference_p_value(self.matrix, other.matrix)


@dataclass(frozen=True)
class MissingRun:
    """A run without a score."""

    entrant: str
    run: str
    reason: str


@dataclass(frozen=True, eq=False)
class TaskResults:
    """All entrants of one task. ``anchors`` are trivial policies on the same cases, or why there are none. Without a
    ``scale`` there are no normalised scores."""

    task: str
    comparable_id: str
    cases: int
    entries: tuple[TaskEntry, ...]
    missing: tuple[MissingRun, ...]
    anchors: TrivialScores | NoAnchors
    scale: Scale | None
    bounds: Bounds = UNBOUNDED
    draws: int = DRAWS

    @property
    def generator(self) -> np.random.Generator:
        """Return a generator seeded by the task, so that other tasks do not change its results."""
        return np.random.default_rng([SEED, zlib.crc32(self.task.encode())])

    @property
    def by_label(self) -> dict[str, TaskEntry]:
        return {entry.label: entry for entry in self.entries}


def task_results(group: TaskRuns, files: Sequence[AnchorFile], with_paper: bool, draws: int = DRAWS) -> TaskResults:
    """Collect the entries of a task. ``with_paper`` adds the published rows; the caller checks that they compare."""
    cases = group.sample.options.heldout_cases
    anchors = trivial_scores(files, group.sample)
    entries, missing = [], []
    for label, runs in group.by_entrant().items():
        missing += [MissingRun(label, score.run.id, score.missing) for score in runs if score.missing]
        if counted := [score for score in runs if not score.missing]:
            entries.append(_entry(label, counted))
    if isinstance(anchors, TrivialScores):
        entries.append(TaskEntry(RANDOM, EntryKind.ANCHOR, task_score(anchors.random), anchors.random))
    if with_paper:
        entries += published_entries(group.task)
    return TaskResults(
        group.task,
        group.comparable_id,
        cases,
        tuple(entries),
        tuple(missing),
        anchors,
        scale_of(group.sample),
        bounds_of(group.sample),
        draws,
    )


def published_entries(task: str) -> list[TaskEntry]:
    """Return the agents of the paper's Table 1, without its random policy: the measured one is the entrant."""
    row = paper.published().get(task, {})
    return [
        TaskEntry(f"{name}{PUBLISHED}", EntryKind.PAPER, mean, None)
        for name, mean in row.items()
        if name != paper.RANDOM
    ]


def _entry(label: str, runs: list[RunScore]) -> TaskEntry:
    matrix = np.array([score.returns for score in runs], dtype=np.float64)
    flags = [flag for score in runs for flag in score.flags]
    counted = tuple(f"{flag} ({flags.count(flag)} of {len(runs)})" for flag in dict.fromkeys(flags))
    failed = np.array([score.failed for score in runs], dtype=np.bool_)
    records = tuple(score.run for score in runs)
    return TaskEntry(label, EntryKind.RUNS, task_score(matrix), matrix, records, counted, failed)
