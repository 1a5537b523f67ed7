"""Feedback of one submission: the judge's own copy, and the copy in the agent's workspace.

Each folder is complete before it gets its name. The agent owns its workspace, may replace anything in it and may be
watching: there, every name is resolved by descriptor and never through a link, so the agent cannot steer a write
elsewhere. If the agent's copy cannot be written, it is skipped; only the judge's copy counts."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from evopolicygym.execution.records import EpisodeError, EpisodeResult, LoadResult
from evopolicygym.files import list_files, open_file, sync, sync_tree
from evopolicygym.judge.events import episode_stats
from evopolicygym.judge.protocol import Verdict
from evopolicygym.judge.state import Submission
from evopolicygym.sandbox.checkpoints import STAGED, remove_tree

MESSAGE_CHARACTERS: Final = 400
# Far beyond what one submission can record; more is not read from a folder that may be forged.
MAX_BYTES: Final = 16 << 30
MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 4


class FeedbackWriter:
    """An unfinished feedback folder beside the finished ones. Workers stream their episodes into it."""

    def __init__(self, feedback: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=STAGED, dir=feedback))
        (self.folder / "episodes").mkdir()

    def episode(self, number: int) -> Path:
        return self.folder / "episodes" / f"ep_{number:03}"

    def write(self, summary: dict[str, Any], load: LoadResult, results: list[EpisodeResult]) -> str:
        """Write what the workers have not written. Returns the digest of the whole folder."""
        for result in results:
            _texts(self.episode(result.number), result.error, result.stdout, result.stderr)
        if load.error:
            _texts(self.folder, None, load.stdout, load.stderr)
        (self.folder / "errors.txt").write_text("\n".join(_errors(load, results)), "utf-8")
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", "utf-8")
        _make_read_only(self.folder)
        return digest(self.folder)

    def publish(self, target: Path) -> None:
        """Give the folder its name. An existing one is from an execution that crashed before its verdict and was never
        shown."""
        remove_tree(target)
        sync_tree(self.folder)
        os.chmod(self.folder, 0o755)
        os.rename(self.folder, target)
        os.chmod(target, 0o555)
        sync(target.parent)

    def discard(self) -> None:
        remove_tree(self.folder)


def summarize(
    submission: Submission,
    verdict: Verdict,
    load: LoadResult,
    results: list[EpisodeResult],
    wall_s: float,
    remaining: int,
) -> dict[str, Any]:
    """Return the content of summary.json and of the reply. Means are null if nothing was played."""
    played = episode_stats(results)
    return {
        "submit_id": submission.name,
        "status": verdict,
        "env_instances": list(submission.charged.cases),
        "n_episodes": len(submission.charged.cases),
        "returns": list(played.returns),
        "lengths": list(played.lengths),
        "mean_return": played.mean if results else None,
        "std_return": played.std if results else None,
        "min_return": min(played.returns, default=None),
        "max_return": max(played.returns, default=None),
        "terminated": [result.terminated for result in results],
        "truncated": [result.truncated for result in results],
        "n_failed": sum(result.error is not None for result in results),
        "errors": list(_failures(load, results)),
        "invalid_actions": sum(kind == "invalid_action" for kind in played.errors),
        "clipped_actions": sum(result.clipped_actions for result in results),
        "wall_time_s": round(wall_s, 4),
        "remaining_budget": remaining,
        "feedback": f"feedback/{submission.name}",
        "left_out": [
            {"episode": result.number, "what": what} for result in results for what in result.left_out
        ],
    }  # fmt: skip


def digest(folder: Path) -> str:
    """Hash the names and contents of a folder. Raises OSError for links, pipes and endless files, which no judge
    writes."""
    whole, remaining = hashlib.sha256(), MAX_BYTES
    for path in sorted(map(PurePosixPath, list_files(folder.parent, folder.name, MAX_FILES, MAX_DEPTH))):
        with open_file(folder, str(path), remaining) as file:
            part = hashlib.file_digest(file, "sha256").hexdigest()
            remaining -= file.tell()
        whole.update(f"{part} {path}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _failures(load: LoadResult, results: list[EpisodeResult]) -> Iterator[dict[str, Any]]:
    if load.error:
        yield {"episode": None, "env_instance": None, **_shortly(load.error)}
    for result in results:
        if result.error:
            yield {"episode": result.number, "env_instance": result.case.index, **_shortly(result.error)}


def _shortly(error: EpisodeError) -> dict[str, str]:
    """Return the kind and the last line of a traceback; error.txt has the rest."""
    lines = error.text.strip().splitlines() or [""]
    return {"kind": error.kind, "message": lines[-1][:MESSAGE_CHARACTERS]}


def _errors(load: LoadResult, results: list[EpisodeResult]) -> Iterator[str]:
    if load.error:
        yield f"the policy does not load: {load.error.kind}\n{load.error.text.rstrip()}\n"
    for result in results:
        if result.error:
            where = f"ep_{result.number:03} (case {result.case.index})"
            yield f"{where}: {result.error.kind}\n{result.error.text.rstrip()}\n"


def _texts(folder: Path, error: EpisodeError | None, stdout: str, stderr: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "stdout.txt").write_text(stdout, "utf-8")
    (folder / "stderr.txt").write_text(stderr, "utf-8")
    if error:
        (folder / "error.txt").write_text(f"{error.kind}\n{error.text.rstrip()}\n", "utf-8")


def _make_read_only(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(parent, name), 0o444)
        if parent != str(folder):
            os.chmod(parent, 0o555)


FOLDER: Final = "feedback"
MAX_DELIVERY_DEPTH: Final = 4
MAX_FILE_BYTES: Final = 1 << 30  # many times what an episode may record
NO_FOLLOW: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DeliveryFailed(Exception):
    """The agent's copy of the feedback could not be written."""


def copy_to_workspace(source: Path, workspace: Path) -> None:
    """Copy a finished feedback folder into the workspace. An existing folder of that name is kept."""
    try:
        with _folder(workspace) as space, _own_folder(space, FOLDER) as feedback:
            if not _exists(feedback, source.name):
                _copy_in(source, feedback)
    except OSError as error:
        raise DeliveryFailed(f"{source.name} could not be copied to the workspace: {error}") from error


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


def _copy_in(source: Path, feedback: int) -> None:
    """Copy under a temporary name, then rename: the agent never sees a part."""
    staged = f".{source.name}-{secrets.token_hex(8)}"
    os.mkdir(staged, 0o700, dir_fd=feedback)
    try:
        with _folder(staged, feedback) as target:
            _copy_tree(source, target)
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


def _copy_tree(source: Path, target: int, depth: int = MAX_DELIVERY_DEPTH) -> None:
    if depth < 0:
        raise OSError(errno.ENAMETOOLONG, "nested too deep", str(source))
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            os.mkdir(entry.name, 0o700, dir_fd=target)
            with _folder(entry.name, target) as inner:
                _copy_tree(Path(entry.path), inner, depth - 1)
                os.fchmod(inner, 0o555)
        else:
            _copy_file(source, entry.name, target)


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
