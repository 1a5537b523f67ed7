"""What an agent was told about a submission, in a few words, and the films of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes

from evopolicygym.files import list_files, read_file
from evopolicygym.report.text import number, short
from evopolicygym.run_record import SubmissionRecord

MAX_BYTES: Final = 1 << 20
MAX_ERRORS: Final = 3
MAX_CHARACTERS: Final = 240
MAX_VIDEOS: Final = 16
MAX_FILES: Final = 100_000
VIDEO: Final = "video.mp4"


@dataclass(frozen=True)
class Video:
    label: str
    href: str


@dataclass(frozen=True)
class FeedbackFiles:
    facts: tuple[str, ...]
    errors: tuple[str, ...]
    videos: tuple[Video, ...]


def feedback(run: Path, submission: SubmissionRecord, page: Path) -> FeedbackFiles:
    """``page`` is the folder that links start from. Where the folder of feedback is gone the record has to do."""
    name = f"feedback/submit_{submission.number:03d}"
    summary = _summary(run, f"{name}/summary.json")
    return FeedbackFiles(
        tuple(_facts(submission, summary)),
        tuple(_errors(submission, summary)),
        tuple(_videos(run, f"{name}/episodes", page)),
    )


def _summary(run: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(read_file(run, name, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
    told = summary.get("errors")
    if isinstance(told, list):
        kinds = [_error(one) for one in told]
    else:
        kinds = [kind for kind in submission.train.errors if kind] if submission.train else []
    yield from list(dict.fromkeys(short(text, MAX_CHARACTERS) for text in kinds))[:MAX_ERRORS]


def _error(told: object) -> str:
    if not isinstance(told, dict):
        return str(told)
    return f"{told.get('kind')}: {told.get('message')}"


def _videos(run: Path, name: str, page: Path) -> Iterator[Video]:
    try:
        found = [path for path in list_files(run, name, MAX_FILES, 1) if path.endswith(f"/{VIDEO}")]
    except OSError:
        return
    for path in (run / name / path for path in found[:MAX_VIDEOS]):
        if path.is_file() and not path.is_symlink():
            yield Video(path.parent.name, link(path, page))


def link(path: Path, page: Path) -> str:
    """Relative and quoted, colons too: the name of a folder must not read as a scheme."""
    return quote_from_bytes(os.fsencode(os.path.relpath(path.resolve(), page.resolve())))
