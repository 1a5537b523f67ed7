"""The normalisation scale of each task: two fixed numbers, so that a new entrant changes no other score.

``low`` is the random anchor, ``high`` the best agent of the paper's Table 1, both on the paper's held-out cases 0-31.
Scores on other cases use the same scale. A change of any number is a new version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from evopolicygym.config import parse_toml


@dataclass(frozen=True)
class Scale:
    """Normalised scores are (score - ``low``) / ``unit``."""

    low: float
    high: float

    @property
    def unit(self) -> float:
        return self.high - self.low


@cache
def _document() -> tuple[int, dict[str, Scale]]:
    document = parse_toml((resources.files("evopolicygym.reference") / "scale.toml").read_text())
    return document["version"], {task: Scale(**ends) for task, ends in document["tasks"].items()}


def version() -> int:
    """Return the version of the stored scale."""
    return _document()[0]


def scales() -> dict[str, Scale]:
    """Return the scale of each task. A task without one has no normalised score."""
    return _document()[1]
