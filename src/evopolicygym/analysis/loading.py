"""Find runs below a folder. What cannot be read is named and left out; the rest goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from evopolicygym.analysis.edits.code_reader import code_facts
from evopolicygym.analysis.scores import unfinished_reason
from evopolicygym.errors import UserError
from evopolicygym.files import is_folder
from evopolicygym.run_paths import check_run_folder
from evopolicygym.run_record import CheckpointRecord, Code, Result, RunRecord, RunStatus, load

RECORD: Final = "run.json"
LEDGER: Final = "ledger.jsonl"
MARKS: Final = (RECORD, LEDGER)
AGENTS_OWN: Final = ("checkpoints", "workspace")
MAX_DEPTH: Final = 32  # of folders; runs are not kept deeper
LARGEST: Final = 1e60  # of a return: its fourth power, which variances of variances need, is still a number
SUPERSEDED: Final = "superseded"  # attempts of a suite that were made again: evidence, but nobody's score


class SkipKind(StrEnum):
    """``unfinished``: nothing is wrong, there is no outcome yet. ``broken``: it will never be read as it is."""

    UNFINISHED = "unfinished"
    BROKEN = "broken"


@dataclass(frozen=True)
class Skipped:
    """A run folder that is left out, and why."""

    path: str
    kind: SkipKind
    reason: str

    @property
    def why(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True)
class CollectedRuns:
    runs: tuple[RunRecord, ...]
    skipped: tuple[Skipped, ...]


def collect_runs(path: Path) -> CollectedRuns:
    """All runs at or below ``path``, in the order of their paths."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "Name a run or a folder of runs.")
    folders = [path] if path.is_file() else sorted(run_folders(path))
    if not folders:
        raise UserError(f"there is no run below {path}", "A run is a folder with run.json.")
    read = [_read(folder) for folder in folders]
    return CollectedRuns(
        tuple(one for one in read if isinstance(one, RunRecord)), tuple(one for one in read if isinstance(one, Skipped))
    )


def run_folders(path: Path) -> Iterator[Path]:
    """Never looks inside a run, nor where an agent writes even if the run around it has no record yet: what lies there
    is no record."""
    start = str(path).rstrip("/").count("/")
    for folder, below, files in os.walk(path):
        is_run = any(mark in (*files, *below) for mark in MARKS)
        if folder.count("/") - start >= MAX_DEPTH:
            below.clear()
        below[:] = [] if is_run else [name for name in below if name not in (*AGENTS_OWN, SUPERSEDED)]
        if is_run:
            yield Path(folder)


def _read(folder: Path) -> RunRecord | Skipped:
    try:
        return read_record(folder)
    except UserError as error:
        return skip_unreadable(folder, error)


def read_record(folder: Path) -> RunRecord:
    """A record that can be computed with. Raises UserError."""
    run = load(folder)
    for value in (run.task.failure_return, *_numbers(run)):
        if abs(value) > LARGEST:
            raise UserError(f"{folder} holds a return of {value:g}, which is too large to compute with")
    return run


def _numbers(run: RunRecord) -> Iterator[float]:
    for checkpoint in run.checkpoints:
        yield from _of_results((checkpoint.validation, checkpoint.heldout))
    yield from _of_results(submission.train for submission in run.submissions)
    if run.outcome:
        yield from (run.outcome.validation_mean or 0.0, *_of_results((run.outcome.heldout,)))


def _of_results(results: Iterable[Result | None]) -> Iterator[float]:
    for result in results:
        if result:
            yield from (*result.returns, result.mean, result.std)


def skip_unreadable(folder: Path, error: UserError) -> Skipped:
    """A ledger without a record is a run whose first record is still to be written."""
    if (folder / LEDGER).is_file() and not os.path.lexists(folder / RECORD):
        reason = "there is a ledger, but no run.json yet (`evopolicygym finish` writes it)"
        return Skipped(str(folder), SkipKind.UNFINISHED, reason)
    return Skipped(str(folder), SkipKind.BROKEN, error.message)


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


def analyze_folder(folder: Path, look: Callable[[RunFolder], Found]) -> Found | Skipped:
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
            return Skipped(str(folder), SkipKind.UNFINISHED, unfinished_reason(run.status))
        return RunFolder(folder, run, dict(_code(folder, run)))
    except UserError as error:
        return skip_unreadable(folder, error)
    except _Broken as error:
        return Skipped(str(folder), SkipKind.BROKEN, str(error))


def _code(folder: Path, run: RunRecord) -> Iterator[tuple[str, Code]]:
    """As recorded; read from the checkpoint where it is not."""
    for checkpoint in run.checkpoints:
        if checkpoint.validation is not None:
            yield checkpoint.hash, checkpoint.code or _read_code(folder, checkpoint)


def _read_code(folder: Path, checkpoint: CheckpointRecord) -> Code:
    stored = f"checkpoints/{checkpoint.hash}"
    if not is_folder(folder, stored):
        raise _Broken(f"checkpoint {checkpoint.hash[:12]} has neither recorded code nor a folder")
    return code_facts(folder / stored)
