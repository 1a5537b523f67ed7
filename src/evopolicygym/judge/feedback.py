"""Feedback of one submission: the judge's own copy, which holds everything at every feedback level.

A folder is complete before it gets its name. ``judge/delivery.py`` copies what the agent may see of it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from evopolicygym.execution.records import EpisodeError, EpisodeResult, LoadResult
from evopolicygym.files import list_files, open_file, sync, sync_tree
from evopolicygym.judge.summary import summary_text
from evopolicygym.sandbox.checkpoints import STAGED, remove_tree

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
        (self.folder / "summary.json").write_text(summary_text(summary), "utf-8")
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
