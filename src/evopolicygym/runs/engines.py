"""The engine that plays the episodes of a run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from evopolicygym.judge.judge import Videos
from evopolicygym.rollout.engine import LocalEngine
from evopolicygym.rollout.slots import Slots
from evopolicygym.runs.settings import Settings
from evopolicygym.tasks.task import Task


def engine_of(
    settings: Settings, task: Task, store: Path, slots: Slots | None = None
) -> AbstractContextManager[LocalEngine]:
    """``slots`` where many runs share them."""
    filming = Videos(settings.video) is not Videos.NONE
    return LocalEngine(task, settings.jobs, settings.isolation.levels(), store, filming, settings.stock, slots)
