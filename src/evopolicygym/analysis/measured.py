"""How often the 95 % intervals were measured to hold the truth: the tables of docs/statistics.md, summed up.

From `python benchmarks/coverage.py`: the lowest and the highest over its settings, without the extreme ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROMISED: Final = 0.93
TASK: Final = {2: (0.50, 0.98), 3: (0.62, 0.97), 5: (0.82, 0.96), 10: (0.93, 0.97), 20: (0.94, 0.97)}
FAMILY: Final = {2: (0.86, 0.98), 3: (0.90, 0.97), 5: (0.93, 0.96), 10: (0.93, 0.97), 20: (0.94, 0.97)}
SUITE: Final = {2: (0.94, 0.98), 3: (0.94, 0.97), 5: (0.94, 0.97), 10: (0.94, 0.97), 20: (0.94, 0.97)}
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
