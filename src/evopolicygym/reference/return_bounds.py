"""Lowest and highest possible returns of tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from evopolicygym.config import parse_toml


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest possible return; infinite where a task states none."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def of_difference(self) -> Bounds:
        """Bounds of the difference of two scores."""
        return Bounds(self.low - self.high, self.high - self.low)


UNBOUNDED: Final = Bounds()


@cache
def return_bounds() -> dict[str, Bounds]:
    """Return the bounds of each task that states any."""
    text = (resources.files("evopolicygym.reference") / "return_bounds.toml").read_text()
    return {task: Bounds(**ends) for task, ends in parse_toml(text).items()}
