"""The folder of a run as it must be before anything in it is used: plain files and folders, and no links.

A run folder may come from elsewhere. Whoever writes into it, plays from it or shows what lies in it would otherwise be
led out of it. What an agent owns (``workspace``, its HOME) is not looked at here: it is opened with care each time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.files import is_folder, open_folder

FILES: Final = ("run.json", "ledger.jsonl", "config.toml", ".lock", ".door.json", "agent/python/pyvenv.cfg")
FOLDERS: Final = (
    *("checkpoints", "feedback", "hidden", "logs", "logs/agent", "workspace"),
    *("agent", "agent/home", "agent/tmp", "agent/programs", "agent/python", "agent/python/bin", "agent/python/lib"),
)
# An agent may have put anything there, and whoever uses them says what: but no link is ever followed.
OF_THE_AGENT: Final = ("workspace", "agent/home", "agent/tmp")
LISTED: Final = ("checkpoints", "feedback", "hidden", "logs", "logs/agent")  # each entry is used by its name


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
        if mode and stat.S_IFMT(mode) != wanted and (stat.S_ISLNK(mode) or name not in OF_THE_AGENT):
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
    """Return 0 for what is not there, also where something on the way is no folder: that is named by itself."""
    try:
        return os.lstat(root / name).st_mode
    except OSError:
        return 0


def _words(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")
