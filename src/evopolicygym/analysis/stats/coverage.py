"""How often the 95 % intervals were measured to hold the truth: the tables of docs/statistics.md, summed up.

From `python benchmarks/coverage.py`: the lowest and the highest over its settings, without the extreme ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROMISED: Final = 0.93
TASK: Final = {2: (0.495, 0.974), 3: (0.668, 0.971), 5: (0.870, 0.975), 10: (0.931, 0.964), 20: (0.939, 0.959)}
FAMILY: Final = {2: (0.901, 0.985), 3: (0.930, 0.985), 5: (0.937, 0.972), 10: (0.945, 0.968), 20: (0.946, 0.955)}
SUITE: Final = {2: (0.949, 0.980), 3: (0.950, 0.974), 5: (0.948, 0.960), 10: (0.942, 0.959), 20: (0.940, 0.956)}
TABLES: Final = {1: TASK, 4: FAMILY, 16: SUITE}


@dataclass(frozen=True)
class Coverage:
    """As shares of 1."""

    low: float
    high: float

    @property
    def as_promised(self) -> bool:
        return self.low >= PROMISED


def coverage(tasks: int, runs: int) -> Coverage | None:
    """Measured with at most as many tasks and runs. None for one run: its interval is not about runs at all."""
    table = TABLES[max(count for count in TABLES if count <= tasks)]
    known = [count for count in table if count <= runs]
    return Coverage(*table[max(known)]) if known else None
