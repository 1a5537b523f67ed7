"""The scale of the normalised score: fixed numbers, so that a new entrant moves nobody.

``low`` is the random anchor, ``high`` the best agent of the paper's Table 1, both on the paper's held-out cases 0-31.
Other cases are measured with the same scale. A change of any number is a new version.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Scale:
    low: float
    high: float

    @property
    def unit(self) -> float:
        return self.high - self.low


@cache
def _document() -> tuple[int, dict[str, Scale]]:
    document = tomllib.loads((resources.files("evopolicygym.reference") / "scale.toml").read_text())
    return document["version"], {task: Scale(**ends) for task, ends in document["tasks"].items()}


def version() -> int:
    return _document()[0]


def scales() -> dict[str, Scale]:
    """By task. A task that is not here has no normalised score."""
    return _document()[1]
