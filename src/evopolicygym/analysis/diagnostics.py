"""Diagnose one run: spending, progress, edits and their phases, growth of the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evopolicygym.analysis.edits.kinds import (
    CANONICAL_EDITS,
    EDITS,
    CanonicalKind,
    EditKind,
    Lines,
    Version,
    edit_size,
    read_lines,
)
from evopolicygym.analysis.edits.timeline import (
    EditPhase,
    ImprovementCurve,
    TimelineEvent,
    edit_phases,
    run_progress,
    timeline,
)
from evopolicygym.analysis.edits.versions import Mechanism, version_facts
from evopolicygym.analysis.entrants import name_alone
from evopolicygym.analysis.feedback_to_edit import FeedbackStudy, feedback_study
from evopolicygym.analysis.gain import LearningCurve, RunGain, learning_curve, run_gain
from evopolicygym.analysis.leaderboard.boards import SameId, conditions, separate_reasons
from evopolicygym.analysis.leaderboard.selection import candidates
from evopolicygym.analysis.loading import RunFolder
from evopolicygym.analysis.scales import bounds_of, counted_runs, scale_of
from evopolicygym.analysis.scores import run_score
from evopolicygym.analysis.spending import Spending, effort_by_submission, run_spending
from evopolicygym.analysis.stats.hit_rates import HitCount
from evopolicygym.reference.return_bounds import Bounds
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import Code, RunRecord


@dataclass(frozen=True)
class CodeSize:
    """Size and structure of the code in a bundle; docs/diagnostics.md has the counting rules."""

    files: int
    lines: int
    functions: int
    branches: int
    loops: int
    depth: int
    state: int


@dataclass(frozen=True)
class CodeSizes:
    """Code of the first, the selected and the last score-bearing submission; ``growth`` is last minus first. None where
    there is none, or its source could not be read."""

    first: CodeSize | None
    selected: CodeSize | None
    last: CodeSize | None
    growth: dict[str, int] | None


@dataclass(frozen=True)
class RunSummary:
    """Identity and outcome of a run. A run served by hand has no agent. ``candidates``: number of distinct checkpoints
    that hidden validation chose among. ``conditions``: how they differ from the default ones. ``not_recorded``:
    what the original of an imported run lacks."""

    folder: str
    id: str
    task: str
    family: str
    demand: str
    entrant: str
    agent: str | None
    model: str | None
    seed: int | None
    comparable_id: str
    conditions: str
    outcome: str
    stopped_early: bool
    selected_submission: int | None
    validation_mean: float | None
    heldout_mean: float | None
    candidates: int
    not_recorded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Everything that `analyze` computes about one run. ``learning`` is None if a submission that could be selected was
    never validated. ``mechanisms``: of the selected code; None if unknown. ``board``: what runs must have in
    common to be counted together, as on a leaderboard. ``heldout_returns`` are those that count for the score;
    ``scale_unit`` is the length of its scale, None without. ``bounds`` (possible returns) and ``same_id`` (with which
    runs of its task it may be counted) are not printed. ``left_out``: what a run that is too large has too much of, so
    that a part of it was not read or compared."""

    summary: RunSummary
    spending: Spending
    gain: RunGain
    learning: LearningCurve | None
    progress: ImprovementCurve
    edits: dict[EditKind, HitCount]
    canonical_edits: dict[CanonicalKind, HitCount]
    phases: tuple[EditPhase, ...]
    structure: CodeSizes
    mechanisms: tuple[Mechanism, ...] | None
    unresolved_imports: tuple[str, ...]
    timeline: tuple[TimelineEvent, ...]
    feedback: FeedbackStudy
    board: dict[str, Any]
    heldout_returns: tuple[float, ...]
    scale_unit: float | None
    bounds: Bounds
    same_id: SameId
    left_out: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with the summary's fields on top."""
        facts = asdict(self)
        del facts["summary"], facts["bounds"], facts["same_id"]
        if self.mechanisms is not None:
            facts["mechanisms"] = [mechanism.model_dump() for mechanism in self.mechanisms]
        return asdict(self.summary) | facts


def diagnose(opened: RunFolder) -> Diagnosis:
    """Compute the diagnostics of one finished run."""
    run = opened.run
    chosen = run.outcome.checkpoint if run.outcome else None
    versions = version_facts(RunPaths(opened.folder).checkpoints, list(opened.code), chosen, opened.work)
    events = timeline(run, opened.code, EditMeasurer(opened).measure, versions.canonical, opened.work)
    selected = opened.code.get(chosen or "")
    efforts = effort_by_submission(run, opened.folder, opened.work)
    return Diagnosis(
        summary=_summary(str(opened.folder), run),
        spending=run_spending(run, efforts),
        gain=run_gain(run),
        learning=learning_curve(run),
        progress=run_progress(events, run.budget.total),
        edits={kind: count_edits(event for event in events if event.kind is kind) for kind in EDITS},
        canonical_edits={
            kind: count_edits(event for event in events if event.canonical is kind) for kind in CANONICAL_EDITS
        },
        phases=edit_phases(events),
        structure=_code_sizes(
            [opened.code[event.checkpoint] for event in events if event.validation is not None], selected
        ),
        mechanisms=versions.mechanisms,
        unresolved_imports=tuple(selected.unresolved) if selected else (),
        timeline=events,
        feedback=feedback_study(run, events, efforts),
        board=conditions(run.ids.fingerprint) | {"apart": list(separate_reasons(run))},
        heldout_returns=_counted_returns(run),
        scale_unit=scale.unit if (scale := scale_of(run)) else None,
        bounds=bounds_of(run),
        same_id=SameId.of(run, 1),
        left_out=opened.work.notes,
    )


def _counted_returns(run: RunRecord) -> tuple[float, ...]:
    score, scale = run_score(run), scale_of(run)
    return tuple(counted_runs([score], scale)[0].tolist()) if scale and score.returns else score.returns


def count_edits(edits: Iterable[TimelineEvent]) -> HitCount:
    """Count edits and their hits."""
    listed = list(edits)
    beyond = [event.beyond_noise for event in listed if event.beyond_noise is not None]
    return HitCount(
        n=len(listed),
        hits=sum(event.hit for event in listed),
        expected=sum(event.chance or 0.0 for event in listed),
        beyond_noise=sum(beyond) if len(beyond) == len(listed) else None,
    )


def _summary(folder: str, run: RunRecord) -> RunSummary:
    agent, outcome = run.agent, run.outcome
    assert outcome is not None
    return RunSummary(
        folder=folder,
        id=run.id,
        task=run.task.id,
        family=run.task.family,
        demand=run.task.demand,
        entrant=name_alone(run),
        agent=agent.name if agent else None,
        model=agent.model if agent else None,
        seed=agent.seed if agent else None,
        comparable_id=run.ids.comparable_id,
        conditions=run.options.conditions(),
        outcome=outcome.kind.value,
        stopped_early=outcome.stopped_early,
        selected_submission=outcome.submission,
        validation_mean=outcome.validation_mean,
        heldout_mean=outcome.heldout.mean if outcome.heldout else None,
        candidates=len(candidates(run)),
        not_recorded=tuple(run.imported.not_recorded) if run.imported else (),
    )


class EditMeasurer:
    """Measures the sizes of edits: of each pair of checkpoints once, within the limits of the run."""

    def __init__(self, opened: RunFolder) -> None:
        self._opened = opened
        self._sizes: dict[tuple[str, str], float | None] = {}
        self._lines: dict[str, dict[str, Lines] | None] = {}  # of the last two checkpoints

    def measure(self, before: Version, after: Version) -> float | None:
        """Return the size of an edit; None where the checkpoints are not stored with the run, or too large."""
        if before.code.bundle_hash == after.code.bundle_hash:
            return 0.0
        pair = (before.checkpoint, after.checkpoint)
        if pair not in self._sizes:
            self._lines = {version.checkpoint: self._read(version) for version in (before, after)}
            first, second = (self._lines[name] for name in pair)
            self._sizes[pair] = None if first is None or second is None else edit_size(first, second, self._opened.work)
        return self._sizes[pair]

    def _read(self, version: Version) -> dict[str, Lines] | None:
        if version.checkpoint in self._lines:
            return self._lines[version.checkpoint]
        return read_lines(self._opened.checkpoint(version.checkpoint), version.code.bundle, self._opened.work)


def _code_sizes(codes: Sequence[Code], selected: Code | None) -> CodeSizes:
    first, last = (_code_size(codes[0]), _code_size(codes[-1])) if codes else (None, None)
    growth = {name: value - getattr(first, name) for name, value in asdict(last).items()} if first and last else None
    return CodeSizes(first, _code_size(selected), last, growth)


def _code_size(code: Code | None) -> CodeSize | None:
    if code is None or code.tree is None:
        return None
    return CodeSize(len(code.bundle), code.lines, code.functions, code.branches, code.loops, code.depth, code.state)
