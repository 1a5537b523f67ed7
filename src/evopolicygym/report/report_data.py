"""Everything that a report is made of, read once, folder by folder. What cannot be read is named and left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.leaderboard.build import Leaderboard, leaderboard
from evopolicygym.analysis.loading import RunFolder, Skipped, analyze_folder, find_run_folders
from evopolicygym.analysis.scores import entrant
from evopolicygym.reference.anchors import AnchorFile, stored_anchors
from evopolicygym.report.submissions import SubmissionRow, submission_rows
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class RunStory:
    """One run as the page tells it."""

    entrant: str
    label: str
    diagnosis: Diagnosis
    rows: tuple[SubmissionRow, ...]


@dataclass(frozen=True)
class ReportData:
    stories: tuple[RunStory, ...]
    leaderboard: Leaderboard
    skipped: tuple[Skipped, ...]


def collect_report(
    paths: Sequence[Path], page: Path, anchors: Sequence[AnchorFile] = (), with_paper: bool = False
) -> ReportData:
    """``page`` is the folder that the page will lie in."""
    stories: list[RunStory] = []
    runs: list[RunRecord] = []
    skipped: list[Skipped] = []
    for folder in find_run_folders(paths):
        found = analyze_folder(folder, lambda opened: (_story(opened, page), opened.run))
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            stories.append(found[0])
            runs.append(found[1])
    return ReportData(tuple(stories), leaderboard(runs, [*anchors, stored_anchors()], with_paper), tuple(skipped))


def _story(opened: RunFolder, page: Path) -> RunStory:
    found = diagnose(opened)
    label = opened.folder.resolve().name
    return RunStory(entrant(opened.run), label, found, tuple(submission_rows(opened, found, page)))
