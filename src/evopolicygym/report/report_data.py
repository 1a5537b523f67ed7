"""Collect the data of a report: each run folder is read once; folders that cannot be read are skipped and listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.leaderboard.build import Leaderboard, leaderboard
from evopolicygym.analysis.loading import RunFolder, Skipped, analyze_folder, find_run_folders, split_by_size
from evopolicygym.analysis.scores import entrant
from evopolicygym.reference.anchors import AnchorFile, stored_anchors
from evopolicygym.report.submissions import SubmissionRow, submission_rows
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class RunStory:
    """One run on the page: its diagnosis and the rows of its submissions."""

    entrant: str
    label: str
    diagnosis: Diagnosis
    rows: tuple[SubmissionRow, ...]


@dataclass(frozen=True)
class ReportData:
    """Everything that the page shows."""

    stories: tuple[RunStory, ...]
    leaderboard: Leaderboard
    skipped: tuple[Skipped, ...]


def collect_report(
    paths: Sequence[Path], page: Path, anchors: Sequence[AnchorFile] = (), with_paper: bool = False
) -> ReportData:
    """Read the runs below ``paths``. ``page`` is the folder of the page: links start there."""
    stories: list[RunStory] = []
    runs: list[RunRecord] = []
    folders, skipped = split_by_size(find_run_folders(paths))
    for folder in folders:
        result = analyze_folder(folder, lambda opened: (_story(opened, page), opened.run))
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            stories.append(result[0])
            runs.append(result[1])
    return ReportData(tuple(stories), leaderboard(runs, [*anchors, stored_anchors()], with_paper), tuple(skipped))


def _story(opened: RunFolder, page: Path) -> RunStory:
    diagnosis = diagnose(opened)
    label = opened.folder.resolve().name
    return RunStory(entrant(opened.run), label, diagnosis, tuple(submission_rows(opened, diagnosis, page)))
