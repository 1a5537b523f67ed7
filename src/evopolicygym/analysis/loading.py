"""Load run folders. Folders that cannot be read are reported as skipped; the others are loaded.

`collect_runs` reads the records alone (leaderboard, compare). `analyze_folder` opens a finished run with the code of
its checkpoints (analyze, report).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from evopolicygym.analysis.edits.code_reader import SourceReader
from evopolicygym.analysis.scores import unfinished_reason
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.errors import UserError
from evopolicygym.files import is_folder
from evopolicygym.printable import one_line
from evopolicygym.record_types import MAX_RETURN
from evopolicygym.run_paths import CHECKPOINTS, LEDGER, RECORD, WORKSPACE, RunPaths, check_run_folder
from evopolicygym.run_record import MAX_BYTES, CheckpointRecord, Code, Result, RunRecord, RunStatus, load

RUN_FILES: Final = (RECORD, LEDGER)
AGENT_FOLDERS: Final = (CHECKPOINTS, WORKSPACE)
MAX_DEPTH: Final = 32  # of the search for run folders
MAX_TOTAL_BYTES: Final = 256 << 20  # of the records of a collection, which take up to 20 times as much memory together
SUPERSEDED: Final = "superseded"  # folder of a suite's repeated attempts: kept as evidence, never scored
REASON_CHARACTERS: Final = 300
Analysed = TypeVar("Analysed")


class SkipKind(StrEnum):
    """Why a folder is skipped. ``unfinished``: the run has no outcome yet. ``broken``: the folder cannot be read as it
    is. ``copy``: the same run was read from another folder."""

    UNFINISHED = "unfinished"
    BROKEN = "broken"
    COPY = "copy"


@dataclass(frozen=True)
class Skipped:
    """A run folder that is left out, with the reason."""

    path: str
    kind: SkipKind
    reason: str

    @property
    def why(self) -> str:
        return f"{self.kind}: {self.reason}"


class CopyCheck:
    """Finds runs that were read before: five copies of one folder are one run, not five."""

    def __init__(self) -> None:
        self._by_ledger: dict[str, str] = {}
        self._by_id: dict[str, str] = {}

    def find(self, folder: Path | str, run: RunRecord) -> Skipped | None:
        """Return why a run is left out: another folder had the same ledger, or a run of the same id."""
        if original := self._by_ledger.get(run.ledger_head):
            return Skipped(str(folder), SkipKind.COPY, f"its ledger is that of {original}")
        if original := self._by_id.get(run.id):
            reason = (
                f"run {one_line(run.id)} is also in {original}, with another ledger; remove the wrong one of the two"
            )
            return Skipped(str(folder), SkipKind.COPY, reason)
        self._by_ledger[run.ledger_head] = self._by_id[run.id] = str(folder)
        return None


@dataclass(frozen=True)
class CollectedRuns:
    """Records of the runs below a path, and the folders that were skipped."""

    runs: tuple[RunRecord, ...]
    skipped: tuple[Skipped, ...]


def collect_runs(path: Path) -> CollectedRuns:
    """Read the records of all runs at or below ``path``, in the order of their paths.

    Raises:
        UserError: The path does not exist, or holds no run.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist", "Name a run or a folder of runs.")
    folders = [path] if path.is_file() else sorted(run_folders(path))
    if not folders:
        raise UserError(f"there is no run below {path}", "A run is a folder with run.json.")
    folders, beyond = split_by_size(folders)
    copies = CopyCheck()
    results = [_read(folder, copies) for folder in folders]
    return CollectedRuns(
        tuple(result for result in results if isinstance(result, RunRecord)),
        (*(result for result in results if isinstance(result, Skipped)), *beyond),
    )


def split_by_size(folders: Iterable[Path], limit: int = MAX_TOTAL_BYTES) -> tuple[list[Path], list[Skipped]]:
    """Return the runs whose records have at most ``limit`` bytes together, and those beyond, to be left out."""
    total, within, beyond = 0, [], []
    for folder in folders:
        size = _record_bytes(folder)
        if total + size > limit:
            reason = f"its record of {size} bytes is beyond the {limit} bytes that are read of a collection; name fewer"
            beyond.append(Skipped(str(folder), SkipKind.BROKEN, reason))
        else:
            total += size
            within.append(folder)
    return within, beyond


def _record_bytes(folder: Path) -> int:
    """Return the size of a record; 0 if it will not be read: it is missing, no plain file, or too large by itself."""
    try:
        status = (folder if folder.is_file() else RunPaths(folder).record).lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES else 0


def run_folders(path: Path) -> Iterator[Path]:
    """Yield run folders at or below ``path``.

    Folders inside a run, and folders that an agent writes to, are never searched: a run.json there is not a record.
    """
    start = str(path).rstrip("/").count("/")
    for folder, below, files in os.walk(path):
        is_run = any(name in (*files, *below) for name in RUN_FILES)
        if folder.count("/") - start >= MAX_DEPTH:
            below.clear()
        below[:] = [] if is_run else [name for name in below if name not in (*AGENT_FOLDERS, SUPERSEDED)]
        if is_run:
            yield Path(folder)


def _read(folder: Path, copies: CopyCheck) -> RunRecord | Skipped:
    try:
        run = read_record(folder)
        return copies.find(folder, run) or run
    except UserError as error:
        return skip_unreadable(folder, error)


def read_record(folder: Path) -> RunRecord:
    """Read the record of a run and check that its numbers can be computed with.

    Raises:
        UserError: The record cannot be read, or holds a return that is too large.
    """
    run = load(folder)
    if (largest := largest_return(run)) > MAX_RETURN:
        raise UserError(f"{one_line(folder)} holds a return of {largest:g}, which is too large to compute with")
    return run


def largest_return(run: RunRecord) -> float:
    """Return the largest absolute value of all returns of a run, and of their means and deviations."""
    return max(map(abs, (run.task.failure_return, *_returns(run))))


def _returns(run: RunRecord) -> Iterator[float]:
    for checkpoint in run.checkpoints:
        yield from _returns_of((checkpoint.validation, checkpoint.heldout))
    yield from _returns_of(submission.train for submission in run.submissions)
    if run.outcome:
        yield from (run.outcome.validation_mean or 0.0, *_returns_of((run.outcome.heldout,)))


def _returns_of(results: Iterable[Result | None]) -> Iterator[float]:
    for result in results:
        if result:
            yield from (*result.returns, result.mean, result.std)


def skip_unreadable(folder: Path, error: UserError) -> Skipped:
    """Report a folder without a readable record. A ledger without run.json is an unfinished run, not a broken one."""
    paths = RunPaths(folder)
    if paths.ledger.is_file() and not os.path.lexists(paths.record):
        reason = "there is a ledger, but no run.json yet (`evopolicygym finish` writes it)"
        return Skipped(str(folder), SkipKind.UNFINISHED, reason)
    return Skipped(str(folder), SkipKind.BROKEN, error.message)


@dataclass(frozen=True)
class RunFolder:
    """A finished run, with the code of every checkpoint that has a validation result. ``work``: limits what is read and
    compared beside the record."""

    folder: Path
    run: RunRecord
    code: Mapping[str, Code]
    work: WorkLimit = field(default_factory=WorkLimit)

    def checkpoint(self, name: str) -> Path:
        return RunPaths(self.folder).checkpoints / name


class _BrokenFolder(Exception):
    """A run folder that cannot be analysed, with the reason."""


def find_run_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the run folders at or below the paths, sorted, each once.

    Raises:
        UserError: A path is not a folder, or none holds a run.
    """
    folders: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is not a folder", "Name a run folder, or a folder that holds some.")
        folders |= {folder.resolve(): folder for folder in run_folders(path)}
    if not folders:
        raise UserError(f"there is no run in {', '.join(map(str, paths))}", "A run folder holds a file run.json.")
    return sorted(folders.values())


def analyze_folder(
    folder: Path, analyse: Callable[[RunFolder], Analysed], copies: CopyCheck | None = None
) -> Analysed | Skipped:
    """Open a run folder and apply ``analyse``. An error in a folder from elsewhere skips that run alone."""
    opened = open_run_folder(folder)
    if isinstance(opened, Skipped):
        return opened
    if copies and (copy := copies.find(folder, opened.run)):
        return copy
    try:
        return analyse(opened)
    except Exception as error:  # a well-formed record can still be inconsistent in more ways than can be listed
        reason = f"it cannot be analysed: {type(error).__name__}: {error}"
        return Skipped(str(folder), SkipKind.BROKEN, reason[:REASON_CHARACTERS])


def open_run_folder(folder: Path) -> RunFolder | Skipped:
    """Open a finished run with the code of its validated checkpoints, or say why it is skipped."""
    try:
        run = read_record(folder)
        check_run_folder(folder)
        if run.status is not RunStatus.FINISHED:
            return Skipped(str(folder), SkipKind.UNFINISHED, unfinished_reason(run))
        return RunFolder(folder, run, dict(_code(folder, run)))
    except UserError as error:
        return skip_unreadable(folder, error)
    except _BrokenFolder as error:
        return Skipped(str(folder), SkipKind.BROKEN, str(error))


def _code(folder: Path, run: RunRecord) -> Iterator[tuple[str, Code]]:
    """Yield the code of validated checkpoints: as recorded, else read from the checkpoint's folder."""
    reader = SourceReader()
    for checkpoint in run.checkpoints:
        if checkpoint.validation is not None:
            yield checkpoint.hash, checkpoint.code or _read_code(reader, folder, checkpoint)


def _read_code(reader: SourceReader, folder: Path, checkpoint: CheckpointRecord) -> Code:
    stored = f"{CHECKPOINTS}/{checkpoint.hash}"
    if not is_folder(folder, stored):
        raise _BrokenFolder(f"checkpoint {checkpoint.hash[:12]} has neither recorded code nor a folder")
    return reader.read(folder / stored)
