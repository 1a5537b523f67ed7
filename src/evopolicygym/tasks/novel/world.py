"""The parts of every generated task: an environment, an expert that knows its rules, and the texts about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

Act = Callable[[Any], Any]  # from an observation to an action


class World(Protocol):
    """One drawn task. It follows from the generator and the level alone; its cases differ by the seed of ``reset``.

    ``horizon`` is the number of steps after which an episode is truncated, ``failure_return`` a return below which no
    way of playing on can fall."""

    horizon: int
    failure_return: float

    def make(self, render_mode: str | None = None) -> Any:
        """Return a new Gymnasium environment. With ``rgb_array`` it can draw itself."""

    def expert(self, env: Any) -> Act:
        """Return the best known way to play an environment that was just reset. It may read the environment's state."""

    def texts(self) -> dict[str, Any]:
        """Return fields of ``Task``: the texts that describe this world to an agent, at every level."""


class WorldFamily(Protocol):
    """A module of this package. ``VERSION`` changes whenever the same key would draw another task."""

    VERSION: int

    def draw(self, generator: np.random.Generator, level: int) -> World: ...
