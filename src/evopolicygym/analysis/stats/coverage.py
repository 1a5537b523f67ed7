"""Measured coverage of the 95 % intervals: a summary of the tables in docs/statistics.md.

From `python benchmarks/coverage.py`: the lowest and the highest coverage over its settings, without the extreme ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NOMINAL_FROM: Final = 0.93  # coverage from here on is printed without a warning
TASK: Final = {2: (0.495, 0.974), 3: (0.668, 0.971), 5: (0.870, 0.975), 10: (0.931, 0.964), 20: (0.939, 0.959)}
FAMILY: Final = {2: (0.901, 0.985), 3: (0.930, 0.985), 5: (0.937, 0.972), 10: (0.945, 0.968), 20: (0.946, 0.955)}
SUITE: Final = {2: (0.949, 0.980), 3: (0.950, 0.974), 5: (0.948, 0.960), 10: (0.942, 0.959), 20: (0.940, 0.956)}
TABLES: Final = {1: TASK, 4: FAMILY, 16: SUITE}


@dataclass(frozen=True)
class Coverage:
    """Lowest and highest measured coverage, as shares of 1."""

    low: float
    high: float

    @property
    def is_nominal(self) -> bool:
        """Whether the interval holds the truth about as often as it claims."""
        return self.low >= NOMINAL_FROM


def coverage(tasks: int, runs: int) -> Coverage | None:
    """Return the coverage that was measured with at most as many tasks and runs.

    None for one run: its interval is not about runs at all.
    """
    table = TABLES[max(count for count in TABLES if count <= tasks)]
    measured = [count for count in table if count <= runs]
    return Coverage(*table[max(measured)]) if measured else None
