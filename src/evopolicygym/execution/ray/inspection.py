"""What a node is: found out there, by doing, and compared with the head."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evopolicygym import __version__
from evopolicygym.errors import IsolationUnavailable
from evopolicygym.execution.ray.messages import decode, encode
from evopolicygym.execution.ray.remote_worker import bit_id
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.launcher import Zygote
from evopolicygym.tasks.task import Task


@dataclass(frozen=True)
class Question:
    """The tasks that will be played, and the levels of isolation that will do."""

    tasks: tuple[Task, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Report:
    """``level`` is None where none of those asked for holds, and ``why_not`` says what is missing. ``bit_ids`` are in
    the order of the tasks."""

    version: str
    level: Level | None
    why_not: str
    bit_ids: tuple[str, ...]
    cores: int


def inspect(question: bytes) -> bytes:
    """On the node."""
    asked = decode(question, Question)
    level, why_not = _best(asked.levels)
    cores = len(os.sched_getaffinity(0))
    return encode(Report(__version__, level, why_not, tuple(bit_id(task) for task in asked.tasks), cores))


def complaint(question: Question, report: Report) -> str:
    """Why the node gets no work; empty when it does. Called on the head, whose own facts are the measure."""
    if report.version != __version__:
        return f"it has evopolicygym {report.version}, the head {__version__}"
    if report.level is None:
        return f"no level of isolation that was asked for holds there: {report.why_not}"
    for task, theirs in zip(question.tasks, report.bit_ids, strict=True):
        if theirs != (ours := bit_id(task)):
            return f"its bit_id of {task.id} is {theirs}, the head's {ours}: returns could differ in their last bits"
    return ""


def _best(levels: tuple[Level, ...]) -> tuple[Level | None, str]:
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as stage:
        try:
            zygote = Zygote.best(levels, Path(stage))
        except IsolationUnavailable as error:
            return None, "; ".join(f"{level}: {reason}" for level, reason in error.reasons.items())
        zygote.close()
        return zygote.level, ""
