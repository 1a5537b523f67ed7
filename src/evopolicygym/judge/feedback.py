"""Feedback of one submission: the canonical copy, which belongs to the judge and is complete before it has its name."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from evopolicygym.execution.records import EpisodeError, EpisodeResult, LoadResult
from evopolicygym.files import list_files, open_file, sync, sync_tree
from evopolicygym.judge.events import episode_stats
from evopolicygym.judge.state import Submission
from evopolicygym.judge.verdicts import Verdict
from evopolicygym.sandbox.checkpoints import STAGED, remove_tree

MESSAGE_CHARACTERS: Final = 400
# Far beyond what one submission can record: of a folder from elsewhere nothing more is read.
MAX_BYTES: Final = 16 << 30
MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 4


class FeedbackWriter:
    """A folder in the making beside the finished ones. Workers stream their episodes into it."""

    def __init__(self, feedback: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=STAGED, dir=feedback))
        (self.folder / "episodes").mkdir()

    def episode(self, number: int) -> Path:
        return self.folder / "episodes" / f"ep_{number:03}"

    def write(self, summary: dict[str, Any], load: LoadResult, results: list[EpisodeResult]) -> str:
        """All that workers have not written. Returns the digest of the whole folder."""
        for result in results:
            _texts(self.episode(result.number), result.error, result.stdout, result.stderr)
        if load.error:
            _texts(self.folder, None, load.stdout, load.stderr)
        (self.folder / "errors.txt").write_text("\n".join(_errors(load, results)), "utf-8")
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", "utf-8")
        _make_read_only(self.folder)
        return digest(self.folder)

    def publish(self, target: Path) -> None:
        """A folder of that name is from an execution that a crash cut short of its verdict: nobody has seen it."""
        remove_tree(target)
        sync_tree(self.folder)
        os.chmod(self.folder, 0o755)
        os.rename(self.folder, target)
        os.chmod(target, 0o555)
        sync(target.parent)

    def discard(self) -> None:
        remove_tree(self.folder)


def summarize(
    submission: Submission, verdict: Verdict, load: LoadResult, results: list[EpisodeResult], wall_s: float, left: int
) -> dict[str, Any]:
    """summary.json, and the ``summary`` of the reply. Means are null when nothing was played."""
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
        "remaining_budget": left,
        "feedback": f"feedback/{submission.name}",
        "left_out": [
            {"episode": result.number, "what": what} for result in results for what in result.left_out
        ],
    }  # fmt: skip


def digest(folder: Path) -> str:
    """Of names and contents, in order. Raises OSError for what no judge has written: links, pipes, endless files."""
    whole, left = hashlib.sha256(), MAX_BYTES
    for path in sorted(map(PurePosixPath, list_files(folder.parent, folder.name, MAX_FILES, MAX_DEPTH))):
        with open_file(folder, str(path), left) as file:
            part = hashlib.file_digest(file, "sha256").hexdigest()
            left -= file.tell()
        whole.update(f"{part} {path}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _failures(load: LoadResult, results: list[EpisodeResult]) -> Iterator[dict[str, Any]]:
    if load.error:
        yield {"episode": None, "env_instance": None, **_shortly(load.error)}
    for result in results:
        if result.error:
            yield {"episode": result.number, "env_instance": result.case.index, **_shortly(result.error)}


def _shortly(error: EpisodeError) -> dict[str, str]:
    """The last line of a traceback says what happened; the rest is in error.txt."""
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
