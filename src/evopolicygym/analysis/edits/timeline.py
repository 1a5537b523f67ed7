"""The timeline of a run: its submissions with their kinds of edits and hits, edit phases, and progress.

An edit phase is a maximal stretch of edits of one kind: synthesis or parametric. A rollback is a phase of its own.
Other kinds neither start nor end a phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from scipy.special import stdtrit

from evopolicygym.analysis.edits.kinds import (
    CanonicalKind,
    CanonicalVersion,
    EarlierVersions,
    EditKind,
    SizeClass,
    Version,
    classify,
    size_class,
)
from evopolicygym.analysis.edits.versions import CanonicalFacts
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.run_record import Code, Result, RunRecord, SubmissionRecord

NOISE_LEVEL: Final = 0.05
MAX_PERMUTED: Final = 1000
EditSizer = Callable[[Version, Version], float | None]


@dataclass(frozen=True)
class TimelineEvent:
    """One submission. ``consumed``: episodes charged so far, this submission included. ``best``: best validation mean
    so far; an edit that strictly raises it is a ``hit``. ``edit_size``: None where unknown, or without an edit.

    ``chance``: probability of a hit here if edits changed nothing, so that the scores came in any order.
    ``beyond_noise``: a hit whose gain over the best so far is larger than what differences between the cases explain.
    ``inert``: every case has the return that it had before the edit. ``exact_return``: the source is that of an earlier
    submission, but not of the one before. None without an edit, or where returns of cases are not recorded.
    ``canonical``: kind of the edit by the canonical form of the program; None without an edit.
    """

    submission: int
    checkpoint: str
    kind: EditKind
    verdict: str | None
    consumed: int
    validation: float | None
    best: float | None
    hit: bool
    edit_size: float | None
    size: SizeClass | None
    chance: float | None = None
    beyond_noise: bool | None = None
    inert: bool | None = None
    exact_return: bool = False
    canonical: CanonicalKind | None = None


def timeline(
    run: RunRecord,
    code: Mapping[str, Code],
    measure: EditSizer,
    canonical: Mapping[str, CanonicalFacts],
    work: WorkLimit | None = None,
) -> tuple[TimelineEvent, ...]:
    """Return an event for each submission.

    ``code`` holds the code of every score-bearing checkpoint by its hash, ``canonical`` the canonical facts of those
    that could be read; ``measure`` returns the size of an edit; ``work`` limits what is compared.
    """
    state = _TimelineState(measure)
    validation = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    events = []
    for submission in run.submissions:
        result = validation[submission.checkpoint]
        if submission.verdict == "ok" and result is not None:
            events.append(state.scored(submission, code[submission.checkpoint], result))
        else:
            events.append(state.unscored(submission))
    return _with_canonical_kinds(_with_chances(events), canonical, EarlierVersions(work or WorkLimit()))


def _with_canonical_kinds(
    events: Sequence[TimelineEvent], facts: Mapping[str, CanonicalFacts], earlier: EarlierVersions
) -> tuple[TimelineEvent, ...]:
    labelled = []
    for event in events:
        kind = None
        if event.validation is not None:
            version = CanonicalVersion(event.checkpoint, facts.get(event.checkpoint))
            kind = earlier.kind(version)
            earlier.add(version)
        labelled.append(replace(event, canonical=kind))
    return tuple(labelled)


def _with_chances(events: Sequence[TimelineEvent]) -> tuple[TimelineEvent, ...]:
    """Add to each edit the probability that its score would be a new best if the scores came in any order."""
    means = [event.validation for event in events if event.validation is not None]
    chances = iter(record_chances(means))
    return tuple(event if event.validation is None else replace(event, chance=next(chances)) for event in events)


def record_chances(scores: Sequence[float]) -> list[float | None]:
    """Return for each place the share of all orders of the scores in which a new best stands there; None for the first,
    which is no edit. Without ties it is 1 / place, and so it is taken to be where there are very many scores."""
    number = len(scores)
    if number < 2:
        return [None] * number
    before = np.arange(number - 1)  # number of scores that are already known to be lower
    if number > MAX_PERMUTED:
        return [None, *(1 / (before + 2)).tolist()]
    ordered = np.sort(np.array(scores, dtype=np.float64))
    below = np.searchsorted(ordered, ordered)[:, None]
    all_below = np.cumprod(np.maximum(below - before, 0) / (number - 1 - before), axis=1)
    return [None, *all_below.mean(axis=0).tolist()]


class _TimelineState:
    """State that later events depend on: the previous version, topologies seen, the best mean, episodes consumed."""

    def __init__(self, measure: EditSizer) -> None:
        self._measure = measure
        self._previous: Version | None = None
        self._seen: set[str] = set()
        self._sources: set[str] = set()
        self._best: Result | None = None
        self._last: Result | None = None
        self._consumed = 0

    def scored(self, submission: SubmissionRecord, code: Code, result: Result) -> TimelineEvent:
        version, best, last = Version(submission.checkpoint, code), self._best, self._last
        if self._previous is None:
            kind, edit_size, hit = EditKind.FIRST, None, False
        else:
            kind = classify(self._previous, version, self._seen)
            edit_size = self._measure(self._previous, version)
            hit = best is not None and result.mean > best.mean
        is_new = self._previous is None or self._previous.code.bundle_hash != code.bundle_hash
        exact_return = is_new and code.bundle_hash in self._sources
        self._sources.add(code.bundle_hash)
        self._previous, self._last = version, result
        if code.topology is not None:
            self._seen.add(code.topology)
        if best is None or result.mean > best.mean:
            self._best = result
        event = replace(self._event(submission, kind, result.mean, hit, edit_size), exact_return=exact_return)
        if best is None or last is None or not (best.returns and result.returns and last.returns):
            return event
        return replace(
            event,
            beyond_noise=hit and _is_beyond_noise(best.returns, result.returns),
            inert=last.returns == result.returns,
        )

    def unscored(self, submission: SubmissionRecord) -> TimelineEvent:
        """Return the event of a submission without validation result: it is charged, and changes nothing else."""
        return self._event(submission, _without_score(submission), None, False, None)

    def _event(
        self, submission: SubmissionRecord, kind: EditKind, mean: float | None, hit: bool, edit_size: float | None
    ) -> TimelineEvent:
        self._consumed += 0 if submission.refunded else submission.charged
        return TimelineEvent(
            submission=submission.number,
            checkpoint=submission.checkpoint,
            kind=kind,
            verdict=submission.verdict,
            consumed=self._consumed,
            validation=mean,
            best=self._best.mean if self._best else None,
            hit=hit,
            edit_size=edit_size,
            size=None if edit_size is None else size_class(edit_size),
        )


def _is_beyond_noise(before: Sequence[float], after: Sequence[float]) -> bool:
    """Test whether the gain, paired by case, is above zero at 5 % (one-sided, Student's t)."""
    gains = [new - old for old, new in zip(before, after, strict=True)]
    mean, number = math.fsum(gains) / len(gains), len(gains)
    if number < 2 or mean <= 0:
        return False
    deviation = math.sqrt(math.fsum((gain - mean) ** 2 for gain in gains) / (number - 1))
    return mean > float(stdtrit(number - 1, 1 - NOISE_LEVEL)) * deviation / math.sqrt(number)


def _without_score(submission: SubmissionRecord) -> EditKind:
    if submission.refunded:
        return EditKind.REFUNDED
    return EditKind.UNSCORED if submission.verdict in (None, "ok") else EditKind.FAILED


MERGED_KINDS: Final = (EditKind.SYNTHESIS, EditKind.PARAMETRIC)


@dataclass(frozen=True)
class EditPhase:
    """A stretch of edits of one kind. ``first`` and ``last`` are numbers of submissions."""

    kind: EditKind
    first: int
    last: int
    edits: int
    hits: int


def edit_phases(events: Iterable[TimelineEvent]) -> tuple[EditPhase, ...]:
    """Join consecutive edits of one kind into phases."""
    phases: list[EditPhase] = []
    for event in events:
        if event.kind not in (*MERGED_KINDS, EditKind.ROLLBACK):
            continue
        if phases and phases[-1].kind is event.kind and event.kind in MERGED_KINDS:
            last = phases.pop()
            phases.append(replace(last, last=event.submission, edits=last.edits + 1, hits=last.hits + event.hit))
        else:
            phases.append(EditPhase(event.kind, event.submission, event.submission, 1, int(event.hit)))
    return tuple(phases)


SHARES: Final = (50, 80, 95)
CODE_EDITS: Final = (EditKind.SYNTHESIS, EditKind.PARAMETRIC, EditKind.ROLLBACK, EditKind.UNKNOWN)


@dataclass(frozen=True)
class CurvePoint:
    """After ``consumed`` episodes the best validation mean was ``best``; it stays so until the next point."""

    consumed: int
    best: float


@dataclass(frozen=True)
class ImprovementCurve:
    """How the best validation mean rose with the episodes consumed, and how the agent reacted when a score fell.

    ``area``: mean height of the curve from its first point to the end of the budget. ``episodes_to``: episodes consumed
    when that share (in percent) of the way from the first score to the final best was covered. A drop is a score below
    the one before it. None: there is no score, or no drop.
    """

    curve: tuple[CurvePoint, ...]
    area: float | None
    episodes_to: dict[int, int | None]
    best_submission: int | None
    submissions_after_best: int | None
    drops: int
    largest_drop: float
    drops_rolled_back: float | None
    last_minus_best: float | None


def run_progress(events: Sequence[TimelineEvent], budget: int) -> ImprovementCurve:
    """Compute the progress of a run from its timeline."""
    scored = [event for event in events if event.validation is not None]
    curve = _curve(scored)
    best = next((event.submission for event in reversed(scored) if event.hit or event.kind is EditKind.FIRST), None)
    drops = _drops(scored)
    return ImprovementCurve(
        curve=curve,
        area=_area(curve, budget),
        episodes_to={share: _episodes_to(curve, share / 100) for share in SHARES},
        best_submission=best,
        submissions_after_best=None if best is None else _accepted_after(events, best),
        drops=len(drops),
        largest_drop=max((size for _, size in drops), default=0.0),
        drops_rolled_back=_rolled_back(scored, drops),
        last_minus_best=_mean(scored[-1]) - curve[-1].best if scored else None,
    )


def _mean(event: TimelineEvent) -> float:
    assert event.validation is not None
    return event.validation


def _curve(scored: Sequence[TimelineEvent]) -> tuple[CurvePoint, ...]:
    """Return a point for each time that the best was raised, the first score included."""
    return tuple(
        CurvePoint(event.consumed, _mean(event)) for event in scored if event.hit or event.kind is EditKind.FIRST
    )


def _area(curve: Sequence[CurvePoint], budget: int) -> float | None:
    if not curve:
        return None
    start, end = curve[0].consumed, max(budget, curve[-1].consumed)
    if start == end:
        return curve[-1].best
    until = [point.consumed for point in curve[1:]] + [end]
    return sum(point.best * (to - point.consumed) for point, to in zip(curve, until, strict=True)) / (end - start)


def _episodes_to(curve: Sequence[CurvePoint], share: float) -> int | None:
    if not curve:
        return None
    first, final = curve[0].best, curve[-1].best
    return next(
        (point.consumed for point in curve if point.best >= first + share * (final - first)), curve[-1].consumed
    )


def _accepted_after(events: Sequence[TimelineEvent], number: int) -> int:
    return sum(event.submission > number and event.kind is not EditKind.REFUNDED for event in events)


def _drops(scored: Sequence[TimelineEvent]) -> list[tuple[int, float]]:
    """Return the index among the scored events, and the size, of each drop."""
    differences = [_mean(before) - _mean(after) for before, after in pairwise(scored)]
    return [(index, drop) for index, drop in enumerate(differences, start=1) if drop > 0]


def _rolled_back(scored: Sequence[TimelineEvent], drops: Sequence[tuple[int, float]]) -> float | None:
    """Return the share of drops whose next edit of code was a rollback; retest, data and cosmetic edits are ignored."""
    if not drops:
        return None
    following: EditKind | None = None
    reactions: list[EditKind | None] = []  # to each event, the last first
    for event in reversed(scored):
        reactions.append(following)
        following = event.kind if event.kind in CODE_EDITS else following
    return sum(reactions[-1 - index] is EditKind.ROLLBACK for index, _ in drops) / len(drops)
