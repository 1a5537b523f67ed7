"""An engine with a fleet of its own: for whoever shares it with nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.execution.ray.engine import RayEngine
from evopolicygym.execution.ray.fleet import Fleet
from evopolicygym.execution.ray.slots import FleetSlots
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task


@contextmanager
def ray_engine(
    task: Task,
    jobs: int,
    address: str | None = None,
    levels: tuple[Level, ...] = PUBLISHABLE,
    store: Path | None = None,
    video: bool = False,
    stock: bool = False,
) -> Iterator[RayEngine]:
    """On every core of the cluster at ``address``; without one, on ``jobs`` cores of a Ray on this machine."""
    with Fleet([task], levels, address, None if address else jobs) as fleet:
        place = store or (fleet.scratch and fleet.scratch / "checkpoints")
        with RayEngine(task, fleet.whereabouts, FleetSlots(fleet), levels, place, video, stock) as engine:
            yield engine
