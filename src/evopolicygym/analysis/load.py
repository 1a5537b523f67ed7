"""Run folders on disk. Broken and half-written ones are named and skipped, never guessed at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from evopolicygym.analysis.collect import SkipKind, Skipped, read_record, run_folders, unreadable
from evopolicygym.analysis.edits.code_reader import code_facts
from evopolicygym.analysis.scores import unfinished
from evopolicygym.errors import UserError
from evopolicygym.files import is_folder
from evopolicygym.run_paths import check_run_folder
from evopolicygym.run_record import CheckpointRecord, Code, RunRecord, RunStatus

Found = TypeVar("Found")
REASON_CHARACTERS: Final = 300


@dataclass(frozen=True)
class RunFolder:
    """A finished run, with the code of every checkpoint that has a validation result."""

    folder: Path
    run: RunRecord
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


def examine(folder: Path, look: Callable[[RunFolder], Found]) -> Found | Skipped:
    """What ``look`` finds in a run folder. Whatever a folder from elsewhere makes of us costs that run alone."""
    opened = open_run(folder)
    if isinstance(opened, Skipped):
        return opened
    try:
        return look(opened)
    except Exception as error:  # a record can be well-formed and still be nonsense in more ways than we can list
        reason = f"it cannot be analysed: {type(error).__name__}: {error}"
        return Skipped(str(folder), SkipKind.BROKEN, reason[:REASON_CHARACTERS])


def open_run(folder: Path) -> RunFolder | Skipped:
    try:
        run = read_record(folder)
        check_run_folder(folder)
        if run.status is not RunStatus.FINISHED:
            return Skipped(str(folder), SkipKind.UNFINISHED, unfinished(run.status))
        return RunFolder(folder, run, dict(_code(folder, run)))
    except UserError as error:
        return unreadable(folder, error)
    except _Broken as error:
        return Skipped(str(folder), SkipKind.BROKEN, str(error))


def _code(folder: Path, run: RunRecord) -> Iterator[tuple[str, Code]]:
    """As recorded; read from the checkpoint where it is not."""
    for checkpoint in run.checkpoints:
        if checkpoint.validation is not None:
            yield checkpoint.hash, checkpoint.code or _read(folder, checkpoint)


def _read(folder: Path, checkpoint: CheckpointRecord) -> Code:
    stored = f"checkpoints/{checkpoint.hash}"
    if not is_folder(folder, stored):
        raise _Broken(f"checkpoint {checkpoint.hash[:12]} has neither recorded code nor a folder")
    return code_facts(folder / stored)
