"""The scale of normalised scores: what counts as 0 and what as 1 on each task, in versions that never change.

Version 1 goes from the random policy to the best agent of the paper's Table 1, without bounds. Version 2 goes from the
best trivial policy to the expert (reference/experts.py). Its aggregates bound every score to 0 and 1, and a failed
episode counts as 0, not as the task's failure return."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.config import parse_toml
from evopolicygym.reference import CURRENT_SCALE

BOUNDED_SINCE: Final = 2
DIGITS: Final = 12


@dataclass(frozen=True)
class Scale:
    """Scale of a task: a normalised score is (score - ``low``) / (``high`` - ``low``).

    Both ends were measured on the paper's held-out cases 0-31. The numbers are fixed, so that a new entrant changes no
    other score; scores on other cases use the same scale. A change of any number is a new version."""

    low: float
    high: float
    version: int = CURRENT_SCALE

    @property
    def unit(self) -> float:
        return self.high - self.low

    @property
    def is_bounded(self) -> bool:
        """Whether aggregates bound scores to 0 and 1, and count failed episodes as 0."""
        return self.version >= BOUNDED_SINCE

    def normalise(self, score: float) -> float:
        return (score - self.low) / self.unit

    def for_aggregates(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores of runs in units of the scale, within its bounds. Rounded there, so that a policy that scores
        what the scale begins or ends with is at 0 or 1, whatever the order of its sums."""
        normalised = np.asarray((scores - self.low) / self.unit)
        return np.clip(np.round(normalised, DIGITS), 0.0, 1.0) if self.is_bounded else normalised


@cache
def scales(version: int = CURRENT_SCALE) -> dict[str, Scale]:
    """Return the scale of each task. A task without one has no normalised score."""
    document = parse_toml((resources.files("evopolicygym.reference") / f"scale-{version}.toml").read_text())
    return {task: Scale(**ends, version=version) for task, ends in document["tasks"].items()}
