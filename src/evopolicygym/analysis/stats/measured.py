"""Measured coverage of the printed intervals: how often they held the truth in simulations of few runs.

`benchmarks/coverage.py --write` writes the numbers, here and in docs/statistics.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

NOMINAL_FROM: Final = 0.90  # coverage from here on, in the worst simulated setting, is printed without a warning


@dataclass(frozen=True)
class Coverage:
    """Lowest and highest measured coverage over all simulated settings, as shares of 1."""

    low: float
    high: float

    @property
    def is_nominal(self) -> bool:
        """Whether the interval holds the truth about as often as it claims."""
        return self.low >= NOMINAL_FROM


def coverage(tasks: int, runs: int) -> Coverage | None:
    """Return the coverage of score intervals that was measured with at most as many tasks and runs.

    None for one run: its interval does not cover differences between runs.
    """
    table = measurements()["score_intervals"]
    by_runs = table[str(max(int(count) for count in table if int(count) <= tasks))]
    measured = [int(count) for count in by_runs if int(count) <= runs]
    return Coverage(*by_runs[str(max(measured))]) if measured else None


@cache
def measurements() -> dict[str, Any]:
    """Return what `benchmarks/coverage.py` measured last."""
    text = (resources.files("evopolicygym.reference") / "coverage.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found
