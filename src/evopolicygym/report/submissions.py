"""The submissions of one run, a row for each: what was edited, what came of it, and the diff."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.load import RunFolder
from evopolicygym.analysis.timeline import Event
from evopolicygym.records.run import Submission
from evopolicygym.report.diffs import Diff, Tree, diff, read_tree
from evopolicygym.report.feedback import Feedback, feedback
from evopolicygym.report.timelines import fate


@dataclass(frozen=True)
class Row:
    """``diff`` to the checkpoint before; ``no_diff`` says why there is none."""

    number: int
    kind: str
    fate: str
    verdict: str
    selected: bool
    consumed: int
    train: float | None
    validation: float | None
    edit_size: float | None
    feedback: Feedback
    diff: Diff | None
    no_diff: str | None


def submission_rows(opened: RunFolder, events: tuple[Event, ...], page: Path) -> Iterator[Row]:
    """Holds two checkpoints at a time."""
    before: Tree | None = {}
    previous: str | None = None
    selected = opened.run.outcome.submission if opened.run.outcome else None
    for submission, event in zip(opened.run.submissions, events, strict=True):
        same = submission.checkpoint == previous
        after = before if same else read_tree(opened.checkpoint(submission.checkpoint))
        change, reason = _change(before, after, same)
        yield _row(
            submission, event, submission.number == selected, feedback(opened.folder, submission, page), change, reason
        )
        before, previous = after, submission.checkpoint


def _change(before: Tree | None, after: Tree | None, same: bool) -> tuple[Diff | None, str | None]:
    if same:
        return None, "the same checkpoint as before"
    if before is None or after is None:
        return None, "the checkpoints are not stored with the run"
    return diff(before, after), None


def _row(
    submission: Submission, event: Event, selected: bool, told: Feedback, change: Diff | None, reason: str | None
) -> Row:
    return Row(
        number=submission.number,
        kind=event.kind,
        fate=fate(event),
        verdict=submission.verdict or ("refunded" if submission.refunded else "none"),
        selected=selected,
        consumed=event.consumed,
        train=submission.train.mean if submission.train else None,
        validation=event.validation,
        edit_size=event.edit_size,
        feedback=told,
        diff=change,
        no_diff=reason,
    )
