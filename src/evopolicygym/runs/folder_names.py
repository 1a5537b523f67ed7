"""Names of run folders. An agent sees the path of its run at every level of isolation, so the path of a blind run must
not give its task away."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.conditions import Variant
from evopolicygym.tasks.sealing import load_key
from evopolicygym.tasks.task import Task

BLIND: Final = "blind"
DIGITS: Final = 8
LONG_NAME: Final = 5  # letters
RUN_REMEDY: Final = "Name a folder with --run (folder=) whose path does not, or leave it out."
NEW_FOLDER: Final = "Name a new folder with --run (folder=)."
MOVED_REMEDY: Final = "Nothing was played. Move the run to a folder whose path does not, and resume it there."
SUITE_REMEDY: Final = "Nothing was made. Name a folder with --folder whose path does not."


def folder_name(*parts: str) -> str:
    """Return a name for a run's folder. It has no ":", which would end its path in the agent's PYTHONPATH, and no
    spaces, so that commands that name it need no quotes."""
    return "__".join(re.sub(r"[/:\s]", "-", part) for part in parts)


def suite_label(settings: RunSettings, task: Task) -> str:
    """Return the first part of a run's name in its suite: the same whenever the suite is continued. That of a blind run
    is drawn from the sealing key: an agent could try the hashes of all tasks."""
    if not settings.is_blind:
        return task.id if settings.variant is Variant.PLAIN else f"{task.id}-{settings.variant}"
    named = f"evopolicygym run name|{task.id}|{settings.variant}".encode()
    return f"{BLIND}-{hmac.new(load_key(settings.seal_key), named, hashlib.sha256).hexdigest()[:DIGITS]}"


def resolve_parents(root: Path) -> Path:
    """Return the path without `..`, which an agent in its sandbox could not follow. A link in the last place stays
    one."""
    path = Path(os.path.abspath(root)) if root.name in ("", "..") else root
    return Path(os.path.realpath(path.parent), path.name)


def check_agent_finds(root: Path) -> None:
    """Raise UserError if a program of the agent would not be found in a run's folder."""
    if os.pathsep in str(root.absolute()):
        raise UserError(
            f"an agent cannot play in a folder whose path has {os.pathsep!r}, which ends a path in PYTHONPATH: {root}",
            NEW_FOLDER,
        )


def check_path_is_neutral(root: Path, settings: RunSettings, task: Task, remedy: str = RUN_REMEDY) -> None:
    """Raise UserError if a path that the agent of a blind run sees has a name of its task: that of the run, or one that
    it is shown. Mounting it elsewhere would not hide it: the kernel lists the sources of mounts in
    /proc/self/mountinfo."""
    if not settings.is_blind:
        return
    for path in settings.agent.shown if settings.agent else ():
        if match := _name_in(path, task):
            raise UserError(
                f"the agent of a blind run sees {match[1]}, and that path names the task ({match[0]})",
                "Show it a copy whose path does not, or leave it out.",
            )
    if match := _name_in(root, task):
        raise UserError(
            f"the agent of a blind run sees the path of its run, and {match[1]} names the task ({match[0]})", remedy
        )


def _name_in(path: Path, task: Task) -> tuple[str, Path] | None:
    """Return a name of the task that a path has, with the path as it is given or with its links followed. Long names
    count within longer words, too. Short ones do not, nor does the family: "ant" is in "constant"."""
    for seen in (path.absolute(), resolve_parents(path), Path(os.path.realpath(path))):
        for name in sorted(task.names()):
            is_word = len(name) < LONG_NAME or name == task.family.lower()
            pattern = rf"(?<![a-z]){re.escape(name)}(?![a-z])" if is_word else re.escape(name)
            if re.search(pattern, str(seen).lower()):
                return name, seen
    return None
