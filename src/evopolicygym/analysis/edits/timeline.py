"""The timeline of a run: its submissions in order, each with the kind of its edit and whether it was a hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evopolicygym.analysis.edits.kinds import Kind, Version, classify
from evopolicygym.analysis.edits.sizes import Size, bucket
from evopolicygym.run_record import Code, RunRecord, SubmissionRecord

Measure = Callable[[Version, Version], float | None]


@dataclass(frozen=True)
class Event:
    """One submission. ``consumed`` episodes were charged up to and with it, ``best`` is the best validation mean after
    it. An edit is a ``hit`` when it strictly raises that; ``edit_size`` is None where it is unknown or no edit is."""

    submission: int
    checkpoint: str
    kind: Kind
    verdict: str | None
    consumed: int
    validation: float | None
    best: float | None
    hit: bool
    edit_size: float | None
    size: Size | None


def timeline(run: RunRecord, code: Mapping[str, Code], measure: Measure) -> tuple[Event, ...]:
    """``code`` of every score-bearing checkpoint, by its hash; ``measure`` gives the size of an edit."""
    story = _Story(measure)
    validation = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    events = []
    for submission in run.submissions:
        result = validation[submission.checkpoint]
        if submission.verdict == "ok" and result is not None:
            events.append(story.score(submission, code[submission.checkpoint], result.mean))
        else:
            events.append(story.pass_by(submission))
    return tuple(events)


class _Story:
    """What is known when the next submission comes."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._previous: Version | None = None
        self._seen: set[str] = set()
        self._best: float | None = None
        self._consumed = 0

    def score(self, submission: SubmissionRecord, code: Code, mean: float) -> Event:
        version = Version(submission.checkpoint, code)
        if self._previous is None:
            kind, edit_size, hit = Kind.FIRST, None, False
        else:
            kind = classify(self._previous, version, self._seen)
            edit_size = self._measure(self._previous, version)
            hit = self._best is not None and mean > self._best
        self._previous = version
        if code.topology is not None:
            self._seen.add(code.topology)
        self._best = mean if self._best is None else max(self._best, mean)
        return self._event(submission, kind, mean, hit, edit_size)

    def pass_by(self, submission: SubmissionRecord) -> Event:
        """Nothing that selection could see: it costs, and changes nothing else."""
        return self._event(submission, _without_score(submission), None, False, None)

    def _event(
        self, submission: SubmissionRecord, kind: Kind, mean: float | None, hit: bool, edit_size: float | None
    ) -> Event:
        self._consumed += 0 if submission.refunded else submission.charged
        return Event(
            submission=submission.number,
            checkpoint=submission.checkpoint,
            kind=kind,
            verdict=submission.verdict,
            consumed=self._consumed,
            validation=mean,
            best=self._best,
            hit=hit,
            edit_size=edit_size,
            size=None if edit_size is None else bucket(edit_size),
        )


def _without_score(submission: SubmissionRecord) -> Kind:
    if submission.refunded:
        return Kind.REFUNDED
    return Kind.UNSCORED if submission.verdict in (None, "ok") else Kind.FAILED
