"""Names of run folders. An agent sees the path of its run, at every level of isolation, so the path of a blind run must
not tell which task it is."""

from __future__ import annotations

import hashlib
import hmac
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


def suite_label(settings: RunSettings, task: Task) -> str:
    """Return the first part of a run's name in its suite: the same whenever the suite is continued. That of a blind run
    is drawn from the sealing key: an agent could try the hashes of all tasks."""
    if not settings.is_blind:
        return task.id if settings.variant is Variant.PLAIN else f"{task.id}-{settings.variant}"
    named = f"evopolicygym run name|{task.id}|{settings.variant}".encode()
    return f"{BLIND}-{hmac.new(load_key(settings.seal_key), named, hashlib.sha256).hexdigest()[:DIGITS]}"


def check_path_is_neutral(root: Path, settings: RunSettings, task: Task) -> None:
    """Raise UserError if the path of a blind run has a name of its task. Mounting it elsewhere would not hide it: the
    kernel lists the sources of mounts in /proc/self/mountinfo."""
    if not settings.is_blind:
        return
    path = str(root.absolute()).lower()
    told = sorted(name for name in task.names() if re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", path))
    if told:
        raise UserError(
            f"the agent of a blind run sees the path of its run, and {root} names the task ({told[0]})",
            "Name a folder with --run whose path does not, or leave --run out.",
        )
