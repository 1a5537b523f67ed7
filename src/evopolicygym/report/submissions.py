"""The submissions of one run, a row for each: what was edited, what came of it, and the diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evopolicygym.analysis.between import Between, By
from evopolicygym.analysis.diagnostics import Diagnosis
from evopolicygym.analysis.edits.timeline import Event
from evopolicygym.analysis.load import RunFolder
from evopolicygym.report.diffs import Diff, Tree, diff, read_tree
from evopolicygym.report.feedback import FeedbackFiles, feedback
from evopolicygym.report.text import short
from evopolicygym.report.timelines import fate
from evopolicygym.run_record import SubmissionRecord

MAX_FILES: Final = 12
TOLD_BY: Final[Mapping[By | None, str]] = {By.TURN: " (its whole turn)", By.MIXED: " (some of them of its whole turn)"}
MAX_CHARACTERS: Final = 600


@dataclass(frozen=True)
class Row:
    """``before``: what the agent used and opened since the last submission, in words. ``diff`` to the checkpoint
    before; ``no_diff`` says why there is none."""

    number: int
    kind: str
    fate: str
    verdict: str
    selected: bool
    consumed: int
    train: float | None
    validation: float | None
    edit_size: float | None
    before: tuple[str, ...]
    feedback: FeedbackFiles
    diff: Diff | None
    no_diff: str | None


def submission_rows(opened: RunFolder, found: Diagnosis, page: Path) -> Iterator[Row]:
    """Holds two checkpoints at a time."""
    before: Tree | None = {}
    previous: str | None = None
    selected = opened.run.outcome.submission if opened.run.outcome else None
    meanwhile = {one.submission: tuple(_meanwhile(one.between)) for one in found.spending.by_submission}
    for submission, event in zip(opened.run.submissions, found.timeline, strict=True):
        same = submission.checkpoint == previous
        after = before if same else read_tree(opened.checkpoint(submission.checkpoint))
        change, reason = _change(before, after, same)
        told = feedback(opened.folder, submission, page)
        row = _row(submission, event, submission.number == selected, told, change, reason)
        yield replace(row, before=meanwhile.get(submission.number, ()))
        before, previous = after, submission.checkpoint


def _meanwhile(told: Between) -> Iterator[str]:
    if told.tokens:
        amounts = {"fresh": told.tokens.fresh_input, "cached": told.tokens.cache_read, "output": told.tokens.output}
        known = ", ".join(f"{amount:,} {name}" for name, amount in amounts.items() if amount is not None)
        yield f"{known} tokens{TOLD_BY.get(told.tokens_by, '')}" if known else "tokens unknown"
    if told.feedback_opened is not None:
        shown = ", ".join(told.feedback_opened[:MAX_FILES]) or "no feedback"
        more = len(told.feedback_opened) - MAX_FILES
        yield f"opened {short(shown, MAX_CHARACTERS)}" + (f" and {more} more" if more > 0 else "")


def _change(before: Tree | None, after: Tree | None, same: bool) -> tuple[Diff | None, str | None]:
    if same:
        return None, "the same checkpoint as before"
    if before is None or after is None:
        return None, "the checkpoints are not stored with the run"
    return diff(before, after), None


def _row(
    submission: SubmissionRecord,
    event: Event,
    selected: bool,
    told: FeedbackFiles,
    change: Diff | None,
    reason: str | None,
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
        before=(),
        feedback=told,
        diff=change,
        no_diff=reason,
    )
