"""A suite on disk: its resolved file, its runs, what was superseded, and one row for each run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.analysis.collect import SUPERSEDED
from evopolicygym.errors import UserError
from evopolicygym.runs.locks import RunIsOwned, RunLock
from evopolicygym.runs.run_status import has_begun, look
from evopolicygym.runs.settings import Settings
from evopolicygym.suites.plan import PlannedRun

FILE: Final = "suite.toml"


@dataclass(frozen=True)
class SuiteFolder:
    root: Path

    @property
    def file(self) -> Path:
        return self.root / FILE

    @property
    def table(self) -> Path:
        return self.root / "suite.json"

    def run(self, name: str) -> Path:
        return self.root / "runs" / name

    def log(self, name: str) -> Path:
        """What the process of a run said, all attempts one after another."""
        return self.root / "logs" / f"{name}.log"

    def superseded(self, name: str) -> list[Path]:
        return sorted((self.root / SUPERSEDED).glob(f"{name}__[0-9]*"))

    def others(self, planned: Iterable[PlannedRun]) -> list[str]:
        """Runs that lie here, and that the suite does not speak of any more."""
        names = {one.name for one in planned}
        return sorted(path.name for path in (self.root / "runs").glob("*") if path.name not in names)

    def make(self) -> None:
        for folder in (self.root, self.root / "runs", self.root / "logs", self.root / SUPERSEDED):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def supersede(self, name: str) -> None:
        """An attempt that is nobody's score makes room for the next, and stays as evidence."""
        number = len(self.superseded(name)) + 1
        os.rename(self.run(name), self.root / SUPERSEDED / f"{name}__{number}")


def is_owned(run: Path) -> bool:
    """Whether some process is at work on it. A link in a suite's folder is none of its runs."""
    if run.is_symlink():
        return False
    try:
        with RunLock(run):
            return False
    except RunIsOwned:
        return True
    except OSError:
        return False  # there is none, or it is not ours to work on


def check_unchanged(folder: SuiteFolder, planned: Iterable[PlannedRun]) -> None:
    """Runs that have begun keep the settings they began with."""
    changes: dict[str, list[str]] = {}
    for one in planned:
        root = folder.run(one.name)
        for difference in _differences(root, one.settings) if has_begun(root) else ():
            changes.setdefault(difference, []).append(one.name)
    if changes:
        lines = [f"  {difference} ({_some(names)})" for difference, names in changes.items()]
        raise UserError(
            f"{folder.root} holds runs of this suite with other settings:\n" + "\n".join(lines),
            "Nothing was started. Undo the change, give the changed agent another name in the suite file, or begin "
            "anew in another folder with --folder.",
        )


def _differences(root: Path, settings: Settings) -> list[str]:
    """None of a run whose settings cannot be read: it is broken, which stops it and nobody else."""
    try:
        return Settings.read(root).differences(settings) + _other_cases(root, settings)
    except UserError:
        return []


def _other_cases(root: Path, settings: Settings) -> list[str]:
    """The same settings with another sealing key are another suite."""
    opened = look(root).opened
    assert opened is not None
    was, now = opened.facts["ids"]["splits_id"], settings.splits().id
    return [] if was == now else [f"the cases are {was} there, {now} here: by another sealing key"]


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
