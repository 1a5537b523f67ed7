"""The layout of a run folder: where its parts lie on disk, and the check that they are plain files and folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.files import is_folder, open_folder

RECORD: Final = "run.json"
LEDGER: Final = "ledger.jsonl"
CONFIG: Final = "config.toml"
LOCK: Final = ".lock"
ADDRESS: Final = ".door.json"  # of the API, while it is served
RESERVE: Final = ".reserve"  # disk space that the judge can give up
AGENT: Final = "agent"  # what the agent sees beside its workspace
AGENT_HOME: Final = f"{AGENT}/home"
AGENT_TEMPORARY: Final = f"{AGENT}/tmp"
AGENT_PROGRAMS: Final = f"{AGENT}/programs"
AGENT_PYTHON: Final = f"{AGENT}/python"
WORKSPACE: Final = "workspace"
CHECKPOINTS: Final = "checkpoints"
TRANSCRIPTS: Final = "logs/agent"
MODEL_CALLS: Final = f"{TRANSCRIPTS}/model_calls.jsonl"
RECORDING: Final = "logs/model/exchanges.bin"


def turn_file(turn: int, suffix: str) -> str:
    """Return the name of a file about one turn (counted from 1), among the transcripts."""
    return f"turn_{turn:03}{suffix}"


@dataclass(frozen=True)
class RunPaths:
    """The folder of one run. All but ``workspace`` belongs to the judge alone."""

    root: Path

    @property
    def record(self) -> Path:
        return self.root / RECORD

    @property
    def ledger(self) -> Path:
        return self.root / LEDGER

    @property
    def config(self) -> Path:
        return self.root / CONFIG

    @property
    def checkpoints(self) -> Path:
        return self.root / CHECKPOINTS

    @property
    def feedback(self) -> Path:
        return self.root / "feedback"

    @property
    def hidden(self) -> Path:
        return self.root / "hidden"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def transcripts(self) -> Path:
        return self.root / TRANSCRIPTS

    @property
    def model_calls(self) -> Path:
        return self.root / MODEL_CALLS

    @property
    def workspace(self) -> Path:
        return self.root / WORKSPACE

    @property
    def system(self) -> Path:
        return self.workspace / "system"

    def make(self) -> None:
        """Make the folders, accessible to the owner only: other users must not read hidden results."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.make_own()
        for folder in (self.workspace, self.system):
            folder.mkdir(mode=0o755, exist_ok=True)

    def make_own(self) -> None:
        """Make missing folders of the judge: git, for example, does not keep empty ones."""
        for folder in (self.checkpoints, self.feedback, self.hidden, self.logs):
            folder.mkdir(mode=0o755, exist_ok=True)


JUDGE_FOLDERS: Final = (CHECKPOINTS, "feedback", "hidden", "logs")
NEW_ENTRIES: Final = frozenset({*JUDGE_FOLDERS, WORKSPACE, CONFIG, LEDGER})  # of a run that has just begun
FILES: Final = (RECORD, LEDGER, CONFIG, LOCK, ADDRESS, RESERVE, f"{AGENT_PYTHON}/pyvenv.cfg", RECORDING)
FOLDERS: Final = (
    *(*JUDGE_FOLDERS, TRANSCRIPTS, "logs/model", WORKSPACE, AGENT, AGENT_HOME, AGENT_TEMPORARY, AGENT_PROGRAMS),
    *(AGENT_PYTHON, f"{AGENT_PYTHON}/bin", f"{AGENT_PYTHON}/lib"),
)
# The agent may have put anything there, so other kinds of files are left to the readers; links are never followed.
AGENT_FOLDERS: Final = (WORKSPACE, AGENT_HOME, AGENT_TEMPORARY)
LISTED: Final = (*JUDGE_FOLDERS, TRANSCRIPTS, "logs/model")  # entries are used by name


def check_run_folder(root: Path) -> None:
    """Raise UserError where a part of the run is a link, or no plain file or folder. Parts may be missing."""
    for name, problem in _problems(root):
        raise UserError(
            f"{root / name} is {problem}: this is not a folder that a judge wrote",
            "Nothing in it was used. A run folder holds plain files and folders; copy a run with its files, not links.",
        )


def _problems(root: Path) -> Iterator[tuple[str, str]]:
    kinds = {**dict.fromkeys(FILES, stat.S_IFREG), **dict.fromkeys(FOLDERS, stat.S_IFDIR)}
    for name, wanted in kinds.items():
        mode = _mode(root, name)
        if mode and stat.S_IFMT(mode) != wanted and (stat.S_ISLNK(mode) or name not in AGENT_FOLDERS):
            yield name, _words(mode)
    for name in LISTED:
        if is_folder(root, name):
            yield from _entries(root, name)


def _entries(root: Path, name: str) -> Iterator[tuple[str, str]]:
    with open_folder(root, name) as folder, os.scandir(folder) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                yield f"{name}/{entry.name}", _words(mode)


def _mode(root: Path, name: str) -> int:
    """Return the mode, or 0 if it is missing, also below something that is no folder (which is reported by itself)."""
    try:
        return os.lstat(root / name).st_mode
    except OSError:
        return 0


def _words(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")
