"""The engine that plays the episodes of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.execution.ray.engine import RayEngine, ray_engine
from evopolicygym.execution.slots import Slots
from evopolicygym.judge.judge import Videos
from evopolicygym.runs.settings import EngineName, Settings
from evopolicygym.tasks.task import Task


@contextmanager
def engine_of(
    settings: Settings, task: Task, store: Path, slots: Slots | None = None, seats: ClusterInfo | None = None
) -> Iterator[Engine]:
    """``slots`` where many runs share them, and with Ray the ``seats`` that they are of."""
    filming = Videos(settings.video) is not Videos.NONE
    levels, stock = settings.isolation.levels(), settings.stock
    if settings.engine is EngineName.LOCAL:
        with LocalEngine(task, settings.jobs, levels, store, filming, stock, slots) as engine:
            yield engine
    elif slots and seats:
        with RayEngine(task, seats, slots, levels, store, filming, stock) as remote:
            yield remote
    else:
        with ray_engine(task, settings.jobs, settings.ray_address, levels, store, filming, stock) as alone:
            yield alone
