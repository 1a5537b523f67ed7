"""The agent's copy of the feedback, in its workspace: what its feedback level allows, up to a size.

The agent owns its workspace, may replace anything in it and may be watching: every name is resolved by descriptor and
never through a link, so the agent cannot steer a write elsewhere. A folder is complete before it gets its name. If the
copy cannot be written, it is skipped; only the judge's own counts."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evopolicygym.files import open_file, read_file
from evopolicygym.judge.contact_sheet import SHEETS
from evopolicygym.judge.feedback import shown_summary, summary_text
from evopolicygym.tasks.conditions import FeedbackLevel

FOLDER: Final = "feedback"
MAX_DELIVERY_DEPTH: Final = 4
MAX_FILE_BYTES: Final = 1 << 30  # many times what an episode may record
NO_FOLLOW: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# The files that each level adds; at `score` no folder of an episode is shown.
SCORE_FILES: Final = frozenset({"summary.json", "errors.txt", "stdout.txt", "stderr.txt"})
SUMMARY_FILES: Final = SCORE_FILES | {"error.txt"}
TRAJECTORY_FILES: Final = SUMMARY_FILES | {"episode.npz", "trajectory.jsonl", "observations.npz", *SHEETS}
FILES: Final = {
    FeedbackLevel.SCORE: SCORE_FILES,
    FeedbackLevel.SUMMARY: SUMMARY_FILES,
    FeedbackLevel.TRAJECTORY: TRAJECTORY_FILES,
    FeedbackLevel.VIDEO: TRAJECTORY_FILES | {"video.mp4"},
}
VIDEO_FILES: Final = frozenset({"video.mp4"})
LARGE_FILES: Final = frozenset({"episode.npz", "trajectory.jsonl", "observations.npz", "video.mp4"})
# At `score`: where an exception was raised, and its type. Names are limited, because a policy can choose them.
RAISED_AT: Final = re.compile(r'^ +File "([\w./-]{1,60})", line (\d{1,6})', re.ASCII | re.MULTILINE)
RAISED_TYPE: Final = re.compile(r"^([A-Za-z_][\w.]{0,39})(?=:|$)", re.ASCII | re.MULTILINE)


class DeliveryFailed(Exception):
    """The agent's copy of the feedback could not be written."""


@dataclass(frozen=True)
class ShownFiles:
    """Files of a feedback folder that are copied, by their names, and ``texts`` that replace files at its top."""

    names: frozenset[str]
    has_episodes: bool = True
    texts: Mapping[str, bytes] = field(default_factory=dict)


def shown_files(source: Path, summary: Mapping[str, Any], level: FeedbackLevel, is_removed: bool = False) -> ShownFiles:
    """Return what an agent sees of a feedback folder. ``is_removed``: its large files went to make room."""
    names = FILES[level] - (LARGE_FILES if is_removed else set())
    texts: dict[str, bytes] = {}
    if level in (FeedbackLevel.SCORE, FeedbackLevel.SUMMARY):
        texts["summary.json"] = summary_text(shown_summary(summary, level)).encode()
    if level is FeedbackLevel.SCORE and summary["returns"]:
        texts["errors.txt"] = "\n".join(_error_kinds(source, summary)).encode()
    return ShownFiles(names, level is not FeedbackLevel.SCORE, texts)


def _error_kinds(source: Path, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield for each kind of error the type, file and line of one, and its message as summary.json has it.

    A policy chooses the whole text and could return all that it saw in it. This leaves it some 200 characters for each
    kind of error and submission, for the price of an episode: little, but not nothing."""
    numbers = {error["kind"]: error["episode"] for error in reversed(summary["errors"])}
    for error in shown_summary(summary, FeedbackLevel.SCORE)["errors"]:
        number = numbers[error["kind"]]
        if number is not None:
            text = read_file(source, f"episodes/ep_{number:03}/error.txt", MAX_FILE_BYTES).decode(errors="replace")
            yield "\n".join([error["kind"], *_origin(text.partition("\n")[2], error["message"]), ""])


def _origin(text: str, message: str) -> Iterator[str]:
    """Yield where a traceback ends, the type of its exception, and the message, which may begin with the type."""
    frames = list(RAISED_AT.finditer(text))
    if frames:
        yield f'  File "{frames[-1][1]}", line {frames[-1][2]}'
        raised = RAISED_TYPE.search(text, frames[-1].end())
        if raised and not message.startswith(raised[1]):
            yield raised[1]
    yield message


def large_bytes(source: Path, level: FeedbackLevel) -> int:
    """Return the size of the large files of a feedback folder that a level shows."""
    names = LARGE_FILES & FILES[level]
    total = 0
    for folder in os.scandir(source / "episodes"):
        if folder.is_dir(follow_symlinks=False):
            entries = (entry for entry in os.scandir(folder) if entry.name in names)
            total += sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return total


def over_the_cap(sizes: Mapping[str, int], cap: int) -> list[str]:
    """Return which submissions lose their large files, oldest first, so that the rest fits. The newest keeps its own,
    whatever their size."""
    names, total = list(sizes), sum(sizes.values())
    removed = []
    for name in names[:-1]:
        if total <= cap:
            break
        total -= sizes[name]
        removed.append(name)
    return removed


def copy_to_workspace(source: Path, workspace: Path, shown: ShownFiles) -> None:
    """Copy a finished feedback folder into the workspace. An existing folder of that name is kept."""
    try:
        with _folder(workspace) as space, _own_folder(space, FOLDER) as feedback:
            if not _exists(feedback, source.name):
                _copy_in(source, feedback, shown)
    except OSError as error:
        raise DeliveryFailed(f"{source.name} could not be copied to the workspace: {error}") from error


def remove_large_files(source: Path, workspace: Path, names: frozenset[str] = LARGE_FILES) -> None:
    """Remove the large files of a submission from the agent's copy. What the agent has put there stays."""
    try:
        episodes = [entry.name for entry in os.scandir(source / "episodes")]
        with (
            _folder(workspace) as space,
            _folder(FOLDER, space) as feedback,
            _folder(source.name, feedback) as copy,
            _folder("episodes", copy) as parent,
        ):
            for name in episodes:
                with suppress(FileNotFoundError), _folder(name, parent) as episode:
                    _unlink(episode, names)
    except FileNotFoundError:
        pass  # the agent has removed it itself
    except OSError as error:
        raise DeliveryFailed(f"large files of {source.name} could not be removed: {error}") from error


def _unlink(episode: int, names: frozenset[str]) -> None:
    os.fchmod(episode, 0o755)
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=episode)
    os.fchmod(episode, 0o555)


def make_feedback_folder(workspace: Path) -> Path:
    """Return the agent's feedback folder, which exists and is no link."""
    with _folder(workspace) as space, _own_folder(space, FOLDER):
        return workspace / FOLDER


def replace_file(workspace: Path, name: str, data: bytes) -> None:
    """Replace a file of the workspace that the judge maintains, such as the address of the API."""
    with _folder(workspace) as space:
        staged = f".{name}-{secrets.token_hex(8)}"
        with open(os.open(staged, NEW_FILE, 0o644, dir_fd=space), "wb") as file:
            file.write(data)
        if _is_folder(space, name):
            os.rename(name, f"{name}-{secrets.token_hex(4)}", src_dir_fd=space, dst_dir_fd=space)
        os.rename(staged, name, src_dir_fd=space, dst_dir_fd=space)


@contextmanager
def _folder(path: Path | str, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, NO_FOLLOW, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _own_folder(parent: int, name: str) -> Iterator[int]:
    """Open a writable folder of that name. Anything else of that name is moved aside, never followed."""
    if _exists(parent, name) and not _is_folder(parent, name):
        os.rename(name, f"{name}-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    with _folder(name, parent) as descriptor:
        if not os.fstat(descriptor).st_mode & stat.S_IWUSR:
            os.fchmod(descriptor, 0o755)
        yield descriptor


def _copy_in(source: Path, feedback: int, shown: ShownFiles) -> None:
    """Copy under a temporary name, then rename: the agent never sees a part."""
    staged = f".{source.name}-{secrets.token_hex(8)}"
    os.mkdir(staged, 0o700, dir_fd=feedback)
    try:
        with _folder(staged, feedback) as target:
            for name, text in shown.texts.items():
                _write_file(name, text, target)
            _copy_tree(source, target, shown, MAX_DELIVERY_DEPTH)
            os.fchmod(target, 0o555)
            os.rename(staged, source.name, src_dir_fd=feedback, dst_dir_fd=feedback)
    except OSError:
        with suppress(OSError):
            _remove_copy(source, staged, feedback)
        raise


def _remove_copy(source: Path, name: str, parent: int) -> None:
    """Remove what was copied and nothing else: the agent may have put endless files there."""
    entries = list(os.scandir(source))
    with _folder(name, parent) as copy:
        os.fchmod(copy, 0o700)
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    _remove_copy(Path(entry.path), entry.name, copy)
                else:
                    os.unlink(entry.name, dir_fd=copy)
    os.rmdir(name, dir_fd=parent)


def _copy_tree(source: Path, target: int, shown: ShownFiles, depth: int) -> None:
    if depth < 0:
        raise OSError(errno.ENAMETOOLONG, "nested too deep", str(source))
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if shown.has_episodes:
                os.mkdir(entry.name, 0o700, dir_fd=target)
                with _folder(entry.name, target) as inner:
                    _copy_tree(Path(entry.path), inner, shown, depth - 1)
                    os.fchmod(inner, 0o555)
        elif entry.name in shown.names and not (depth == MAX_DELIVERY_DEPTH and entry.name in shown.texts):
            _copy_file(source, entry.name, target)


def _write_file(name: str, data: bytes, target: int) -> None:
    with open(os.open(name, NEW_FILE, 0o444, dir_fd=target), "wb") as file:
        file.write(data)


def _copy_file(folder: Path, name: str, target: int) -> None:
    """Copy a plain file. A resumed run folder may be forged, so links are not followed."""
    with (
        open_file(folder, name, MAX_FILE_BYTES) as original,
        open(os.open(name, NEW_FILE, 0o444, dir_fd=target), "wb") as copy,
    ):
        shutil.copyfileobj(original, copy, 1 << 20)


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_folder(parent: int, name: str) -> bool:
    return _exists(parent, name) and stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
