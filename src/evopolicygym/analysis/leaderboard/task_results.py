"""Results on one task under one comparable_id: entrants with runs, the random policy, published rows if asked for.

The random policy is an entrant; other trivial policies are scores to beat. Their anchors count only if they were
measured as the runs were: same cases, versions and limits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from evopolicygym.analysis.gain import bounds_of, scale_of
from evopolicygym.analysis.leaderboard.boards import TaskRuns, differences
from evopolicygym.analysis.scores import PUBLISHED, RANDOM, Matrix, RunScore, task_score
from evopolicygym.analysis.stats.bootstrap import DRAWS, SEED, Drawn, draw
from evopolicygym.analysis.stats.estimates import Estimate, difference_p_value, estimate_score
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import AnchorFile, Scale, TaskAnchors, scales
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds
from evopolicygym.run_record import RunRecord, TaskScale

SHIFTED: Final = "shifted"
OPTIONAL_FACTS: Final = ("env_options", "sources", "world")  # of tasks that have such; anchors without them do not fit
MEASURE: Final = "`evopolicygym task anchors TASK` measures them"
MEASURE_SHIFTED: Final = "each key of a shifted task has its own; measure with `task anchors TASK --variant shifted`"


@dataclass(frozen=True)
class TrivialScores:
    """Scores of trivial policies on the cases of a task's runs. ``random`` has a row for each repeat."""

    random: Matrix
    means: dict[str, float]

    @property
    def best(self) -> str:
        """Name of the trivial policy with the highest score."""
        return max(self.means, key=self.means.__getitem__)


@dataclass(frozen=True)
class NoAnchors:
    """Why no anchors fit the runs."""

    reason: str


def trivial_scores(files: Sequence[AnchorFile], run: RunRecord) -> TrivialScores | NoAnchors:
    """Return the scores of the first anchors that were measured as the run was, or why none fit."""
    anchors = fitting_anchors(files, run)
    return anchors if isinstance(anchors, NoAnchors) else _scores_of(anchors, run.options.heldout_cases)


def fitting_anchors(files: Sequence[AnchorFile], run: RunRecord) -> TaskAnchors | NoAnchors:
    """Return the first anchors that were measured as the run was, or why none fit."""
    reason = MEASURE_SHIFTED if run.options.variant == SHIFTED else f"no anchors are stored for this task; {MEASURE}"
    if scale := run.task.scale:
        reason = f"the scale was measured when the task was drawn: best trivial {scale.low:g}, expert {scale.high:g}"
    if run.imported:
        return NoAnchors(f"anchors were measured on other cases than those of the {run.imported.words}")
    for file in files:
        if (anchors := file.tasks.get(run.task.id)) is None:
            continue
        reason = _mismatch(anchors, run)
        if not reason:
            return anchors
    return NoAnchors(reason)


def with_own_scales(runs: Iterable[RunRecord], files: Sequence[AnchorFile]) -> list[RunRecord]:
    """Return runs whose scores have no stored scale with one from the anchors that fit them, where there are such.

    A shifted task, and a task of one's own, has rules that the stored scale was not measured under. Its scale goes from
    the random policy to the expert that was measured with it, else to the upper end of the plain task.
    """
    return [_with_own_scale(run, files) for run in runs]


def _with_own_scale(run: RunRecord, files: Sequence[AnchorFile]) -> RunRecord:
    if scale_of(run) is not None:
        return run
    anchors = fitting_anchors(files, run)
    if isinstance(anchors, NoAnchors):
        return run
    cases, plain = anchors.heldout_cases, scales().get(run.task.id)
    low = anchors.random.mean(cases)
    high = anchors.expert.mean(cases) if anchors.expert else plain.high if plain else None
    if high is None or high <= low:
        return run
    scale = TaskScale(low=low, high=high, draws=1)
    return run.model_copy(update={"task": run.task.model_copy(update={"scale": scale})})


def _mismatch(anchors: TaskAnchors, run: RunRecord) -> str:
    compared = {*anchors.fingerprint, *(name for name in OPTIONAL_FACTS if name in run.ids.fingerprint)}
    compared |= {"variant"} if run.options.variant == SHIFTED else set()
    measured = {name: run.ids.fingerprint[name] for name in compared if name in run.ids.fingerprint}
    if "variant" in compared and anchors.fingerprint.get("variant") != measured.get("variant"):
        return MEASURE_SHIFTED
    if unequal := differences(anchors.fingerprint, measured):
        return f"the stored anchors differ: {'; '.join(unequal)}; {MEASURE}"
    if anchors.heldout_cases < run.options.heldout_cases:
        return f"the stored anchors have {anchors.heldout_cases} cases, not {run.options.heldout_cases}; {MEASURE}"
    return ""


def _scores_of(anchors: TaskAnchors, cases: int) -> TrivialScores:
    random = np.array([repeat[:cases] for repeat in anchors.random.returns])
    return TrivialScores(random, {name: anchor.mean(cases) for name, anchor in anchors.trivial().items()})


NO_ERROR_KNOWN = Estimate(0.0, one_run=1, one_case=1)


class EntryKind(StrEnum):
    """Where an entry comes from. For a published one only the mean is known."""

    RUNS = "runs"
    ANCHOR = "anchor"
    PAPER = "paper"


@dataclass(frozen=True, eq=False)
class TaskEntry:
    """One entrant on one task: its score, and the returns (runs x cases) where they are known."""

    label: str
    kind: EntryKind
    score: float
    matrix: Matrix | None
    runs: tuple[RunRecord, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def repeats(self) -> int:
        return 1 if self.matrix is None else len(self.matrix)

    @property
    def selected_policies(self) -> int | None:
        """Number of distinct policies that the runs selected; None for entries without runs."""
        if not self.runs:
            return None
        return len({run.outcome.checkpoint if run.outcome else None for run in self.runs})

    def run_means(self) -> Matrix:
        return np.array([self.score]) if self.matrix is None else np.asarray(self.matrix.mean(axis=1))

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
        """Seeded by the task: other tasks change nothing here."""
        return np.random.default_rng([SEED, zlib.crc32(self.task.encode())])

    @cached_property
    def drawn(self) -> dict[str, Drawn]:
        """Runs x draws for each entrant."""
        matrices = {entry.label: entry.matrix for entry in self.entries if entry.matrix is not None}
        fixed = {entry.label: np.full((1, self.draws), entry.score) for entry in self.entries if entry.matrix is None}
        return {**(draw(matrices, self.generator, self.draws) if matrices else {}), **fixed}

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
    return TaskEntry(label, EntryKind.RUNS, task_score(matrix), matrix, tuple(score.run for score in runs), counted)
