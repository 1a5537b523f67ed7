"""Collect the data of a report: each run folder is read once; folders that cannot be read are skipped and listed.

The rows of a run's submissions hold the edit, the outcome, the feedback in short, videos and the diff.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes

from evopolicygym.analysis.analyze import RunOrigin, run_origin, scaled_folder, with_entrant
from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.entrants import NO_LABELS, name_entrants
from evopolicygym.analysis.feedback_to_edit import describe_feedback
from evopolicygym.analysis.leaderboard.build import Leaderboard, leaderboard
from evopolicygym.analysis.loading import (
    CopyCheck,
    RunFolder,
    Skipped,
    analyze_folder,
    find_run_folders,
    split_by_size,
)
from evopolicygym.analysis.spending import SubmissionEffort, TokenPrecision
from evopolicygym.analysis.work_limit import READING, WorkLimit
from evopolicygym.files import list_files, read_file
from evopolicygym.reference import CURRENT_SCALE
from evopolicygym.reference.anchors import AnchorFile, stored_anchors
from evopolicygym.reference.curves import CurveRecord
from evopolicygym.report.diffs import Diff, Tree, diff, read_tree
from evopolicygym.report.edit_charts import edit_result
from evopolicygym.report.text import number, short
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import RunRecord, SubmissionRecord

MAX_SUMMARY_BYTES: Final = 1 << 20
MAX_ERRORS: Final = 3
MAX_ERROR_CHARACTERS: Final = 240
MAX_VIDEOS: Final = 16
MAX_ROWS: Final = 1_000  # submissions of a run that the page lists
MAX_FEEDBACK_FILES: Final = 100_000
VIDEO: Final = "video.mp4"
MAX_OPENED_FILES: Final = 12
MAX_OPENED_CHARACTERS: Final = 600
PRECISION_NOTES: Final[Mapping[TokenPrecision | None, str]] = {
    TokenPrecision.TURN: " (its whole turn)",
    TokenPrecision.MIXED: " (some kinds for its whole turn)",
}


@dataclass(frozen=True)
class ReportedRun:
    """One run on the page: its diagnosis and the rows of its submissions. ``label``: its entrant and seed, unique on
    the page. ``folder``: the name of its folder."""

    entrant: str
    label: str
    folder: str
    diagnosis: Diagnosis
    rows: tuple[SubmissionRow, ...]


@dataclass(frozen=True)
class ReportData:
    """Data of a page. ``with_paper``: includes the published rows. ``curves``: learning curves of baselines."""

    runs: tuple[ReportedRun, ...]
    leaderboard: Leaderboard
    skipped: tuple[Skipped, ...]
    with_paper: bool = False
    curves: tuple[CurveRecord, ...] = ()


def collect_report(
    paths: Sequence[Path],
    page: Path,
    anchors: Callable[[Sequence[RunRecord]], Sequence[AnchorFile]] = lambda _: [stored_anchors()],
    with_paper: bool = False,
    scale: int = CURRENT_SCALE,
    labels: Mapping[str, str] = NO_LABELS,
    curves: Sequence[CurveRecord] = (),
) -> ReportData:
    """Read the runs below ``paths``. ``page`` is the folder of the page: links start there. ``anchors`` returns those
    to look in, and refuses some that do not fit the runs. ``scale``: version of the scale of normalised scores.
    ``labels``: new names of entrants."""
    reported: list[tuple[RunOrigin, ReportedRun]] = []
    runs: list[RunRecord] = []
    files = anchors(())
    folders, skipped = split_by_size(find_run_folders(paths))
    copies = CopyCheck()
    for folder in folders:
        result = analyze_folder(
            folder, lambda opened: (_reported_run(scaled_folder(opened, files, scale), page), opened.run), copies
        )
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            reported.append((run_origin(result[1]), result[0]))
            runs.append(result[1])
    board = leaderboard(runs, anchors(runs), with_paper, scale=scale, labels=labels, curves=curves)
    return ReportData(tuple(_named(reported, labels)), board, tuple(skipped), with_paper, tuple(curves))


def _reported_run(opened: RunFolder, page: Path) -> ReportedRun:
    diagnosis = diagnose(opened)
    folder, rows = opened.folder.resolve().name, tuple(submission_rows(opened, diagnosis, page))
    if len(rows) < len(opened.run.submissions):
        opened.work.note(f"{len(opened.run.submissions)} submissions, of which {len(rows)} are listed")
    diagnosis = replace(diagnosis, left_out=opened.work.notes)
    return ReportedRun(diagnosis.summary.entrant, folder, folder, diagnosis, rows)


def _named(reported: Sequence[tuple[RunOrigin, ReportedRun]], labels: Mapping[str, str]) -> Iterator[ReportedRun]:
    """Yield the runs with the names of their entrants, and with labels that no other run of the same task has."""
    names = name_entrants((origin.author for origin, _ in reported), labels)
    used: Counter[tuple[str, str]] = Counter()
    for origin, run in reported:
        name = names.by_author[origin.author]
        diagnosis = with_entrant(run.diagnosis, name)
        seed = diagnosis.summary.seed
        label = name if seed is None else f"{name}, seed {seed}"
        used[key := (diagnosis.summary.task, label)] += 1
        label = label if used[key] == 1 else f"{label} #{used[key]}"
        yield replace(run, entrant=name, label=label, diagnosis=diagnosis)


@dataclass(frozen=True)
class VideoLink:
    """A link to the video of an episode."""

    label: str
    href: str


@dataclass(frozen=True)
class FeedbackFiles:
    """Summary of the feedback of a submission, with links to its videos."""

    facts: tuple[str, ...]
    errors: tuple[str, ...]
    videos: tuple[VideoLink, ...]


def summarize_feedback(
    run: Path, submission: SubmissionRecord, page: Path, work: WorkLimit | None = None
) -> FeedbackFiles:
    """Summarize the feedback of a submission, from the record alone where its feedback folder is gone.

    Links are relative to the folder ``page``.
    """
    name = f"{RunPaths(run).feedback.name}/submit_{submission.number:03d}"
    summary = _summary(run, f"{name}/summary.json", work or WorkLimit())
    return FeedbackFiles(
        tuple(_facts(submission, summary)),
        tuple(_errors(submission, summary)),
        tuple(_videos(run, f"{name}/episodes", page)),
    )


def _summary(run: Path, name: str, work: WorkLimit) -> dict[str, Any]:
    try:
        data = read_file(run, name, min(MAX_SUMMARY_BYTES, work.bytes_left))
        summary = json.loads(data) if work.read(len(data)) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return summary if isinstance(summary, dict) else {}


def _facts(submission: SubmissionRecord, summary: dict[str, Any]) -> Iterator[str]:
    episodes = len(submission.cases)
    yield (
        f"{episodes} episode{'s' * (episodes != 1)}, {submission.charged} charged" + " (refunded)" * submission.refunded
    )
    if train := submission.train:
        yield f"returns {number(min(train.returns, default=None))} to {number(max(train.returns, default=None))}"
        yield f"lengths {min(train.lengths, default=0)} to {max(train.lengths, default=0)}"
    failed = summary.get(
        "n_failed", sum(error is not None for error in submission.train.errors) if submission.train else 0
    )
    if failed:
        yield f"{failed} episode{'s' * (failed != 1)} failed"
    if submission.clipped_actions:
        yield f"{submission.clipped_actions} actions clipped"


def _errors(submission: SubmissionRecord, summary: dict[str, Any]) -> Iterator[str]:
    errors = summary.get("errors")
    if isinstance(errors, list):
        texts = [_error(error) for error in errors]
    else:
        texts = [kind for kind in submission.train.errors if kind] if submission.train else []
    yield from list(dict.fromkeys(short(text, MAX_ERROR_CHARACTERS) for text in texts))[:MAX_ERRORS]


def _error(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    return f"{error.get('kind')}: {error.get('message')}"


def _videos(run: Path, name: str, page: Path) -> Iterator[VideoLink]:
    try:
        videos = [path for path in list_files(run, name, MAX_FEEDBACK_FILES, 1) if path.endswith(f"/{VIDEO}")]
    except OSError:
        return
    for path in (run / name / path for path in videos[:MAX_VIDEOS]):
        if path.is_file() and not path.is_symlink():
            yield VideoLink(path.parent.name, link(path, page))


def link(path: Path, page: Path) -> str:
    """Return a relative URL. Colons are quoted, too: the name of a folder must not read as a scheme."""
    return quote_from_bytes(os.fsencode(os.path.relpath(path.resolve(), page.resolve())))


@dataclass(frozen=True)
class SubmissionRow:
    """One submission. ``canonical``: kind of the edit by the canonical form. ``before``: tokens and files since the
    last submission, and what became of its weak cases, in words. ``diff`` to the checkpoint before; ``no_diff`` says
    why there is none."""

    number: int
    kind: str
    canonical: str | None
    result: str
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


class CheckpointDiffs:
    """Diffs of the checkpoints of one run: each checkpoint is read once, and each pair compared once."""

    def __init__(self, opened: RunFolder) -> None:
        self._opened = opened
        self._trees: dict[str, Tree | None] = {}
        self._diffs: dict[tuple[str | None, str], Diff] = {}

    def between(self, before: str | None, after: str) -> tuple[Diff | None, str | None]:
        """Return the diff, or why there is none. ``before`` is None for the first submission."""
        if before == after:
            return None, "the same checkpoint as before"
        old, new = self._tree(before) if before else {}, self._tree(after)
        if old is None or new is None:
            is_limit = READING in self._opened.work.notes
            return None, f"the run has {READING}" if is_limit else "the checkpoints are not stored with the run"
        if (before, after) not in self._diffs:
            self._diffs[before, after] = diff(old, new, self._opened.work)
        return self._diffs[before, after], None

    def _tree(self, name: str) -> Tree | None:
        if name not in self._trees:
            self._trees[name] = read_tree(self._opened.checkpoint(name), self._opened.work)
        return self._trees[name]


def submission_rows(opened: RunFolder, diagnosis: Diagnosis, page: Path) -> Iterator[SubmissionRow]:
    """Yield a row for each submission: of very many, for the first ones and the selected one."""
    diffs, previous = CheckpointDiffs(opened), None
    selected = opened.run.outcome.submission if opened.run.outcome else None
    efforts = {spent.submission: tuple(_describe_effort(spent.between)) for spent in diagnosis.spending.by_submission}
    weak = {edit.submission: describe_feedback(edit) for edit in diagnosis.feedback.edits}
    for position, (submission, event) in enumerate(zip(opened.run.submissions, diagnosis.timeline, strict=True)):
        before, previous = previous, submission.checkpoint
        if position >= MAX_ROWS and submission.number != selected:
            continue
        change, reason = diffs.between(before, submission.checkpoint)
        feedback = summarize_feedback(opened.folder, submission, page, opened.work)
        row = _row(submission, event, submission.number == selected, feedback, change, reason)
        lines = (*efforts.get(submission.number, ()), weak.get(submission.number))
        yield replace(row, before=tuple(line for line in lines if line))


def _describe_effort(effort: SubmissionEffort) -> Iterator[str]:
    if effort.tokens:
        amounts = {
            "fresh": effort.tokens.fresh_input,
            "cached": effort.tokens.cache_read,
            "output": effort.tokens.output,
        }
        token_text = ", ".join(f"{amount:,} {name}" for name, amount in amounts.items() if amount is not None)
        yield f"{token_text} tokens{PRECISION_NOTES.get(effort.tokens_by, '')}" if token_text else "tokens unknown"
    if effort.feedback_opened is not None:
        shown = ", ".join(effort.feedback_opened[:MAX_OPENED_FILES]) or "no feedback"
        more = len(effort.feedback_opened) - MAX_OPENED_FILES
        yield f"opened {short(shown, MAX_OPENED_CHARACTERS)}" + (f" and {more} more" if more > 0 else "")


def _row(
    submission: SubmissionRecord,
    event: TimelineEvent,
    selected: bool,
    feedback: FeedbackFiles,
    change: Diff | None,
    reason: str | None,
) -> SubmissionRow:
    return SubmissionRow(
        number=submission.number,
        kind=event.kind,
        canonical=event.canonical,
        result=edit_result(event),
        verdict=submission.verdict or ("refunded" if submission.refunded else "none"),
        selected=selected,
        consumed=event.consumed,
        train=submission.train.mean if submission.train else None,
        validation=event.validation,
        edit_size=event.edit_size,
        before=(),
        feedback=feedback,
        diff=change,
        no_diff=reason,
    )
