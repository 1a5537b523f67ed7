"""Run folders on disk. Broken and half-written ones are named and skipped, never guessed at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.code_reader import code_facts
from evopolicygym.analysis.collect import SkipKind, Skipped, run_folders, unreadable
from evopolicygym.analysis.scores import unfinished
from evopolicygym.errors import UserError
from evopolicygym.records.run import Checkpoint, Code, Run, Status, load


@dataclass(frozen=True)
class RunFolder:
    """A finished run, with the code of every checkpoint that has a validation result."""

    folder: Path
    run: Run
    code: Mapping[str, Code]

    def checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / name


class _Broken(Exception):
    """Why a folder cannot be analysed."""


def find_run_folders(paths: Sequence[Path]) -> list[Path]:
    """Each path is a run folder, or holds some at any depth. In the order of their names, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is not a folder", "Name a run folder, or a folder that holds some.")
        found |= {folder.resolve(): folder for folder in run_folders(path)}
    if not found:
        raise UserError(f"there is no run in {', '.join(map(str, paths))}", "A run folder holds a file run.json.")
    return sorted(found.values())


def open_run(folder: Path) -> RunFolder | Skipped:
    try:
        run = load(folder)
        if run.status is not Status.FINISHED:
            return Skipped(str(folder), SkipKind.UNFINISHED, unfinished(run.status))
        _check(run)
        return RunFolder(folder, run, dict(_code(folder, run)))
    except UserError as error:
        return unreadable(folder, error)
    except _Broken as error:
        return Skipped(str(folder), SkipKind.BROKEN, str(error))


def _check(run: Run) -> None:
    if run.outcome is None:
        raise _Broken("it is finished, but has no outcome")
    numbers = [submission.number for submission in run.submissions]
    if numbers != sorted(set(numbers)):
        raise _Broken("its submissions are out of order")
    known = {checkpoint.hash for checkpoint in run.checkpoints}
    for submission in run.submissions:
        if submission.checkpoint not in known:
            raise _Broken(f"submission {submission.number} names a checkpoint that is not recorded")


def _code(folder: Path, run: Run) -> Iterator[tuple[str, Code]]:
    """As recorded; read from the checkpoint where it is not."""
    for checkpoint in run.checkpoints:
        if checkpoint.validation is not None:
            yield checkpoint.hash, checkpoint.code or _read(folder / "checkpoints" / checkpoint.hash, checkpoint)


def _read(stored: Path, checkpoint: Checkpoint) -> Code:
    if not stored.is_dir():
        raise _Broken(f"checkpoint {checkpoint.hash[:12]} has neither recorded code nor a folder")
    return code_facts(stored)
