"""Measured coverage of the printed intervals: how often they held the truth in simulations of few runs.

`benchmarks/coverage.py --write` writes the numbers, here and in docs/coverage.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

DEVIATIONS: Final = ("run_deviation", "case_deviation", "rest_deviation")
SUITE: Final = 16  # tasks
FAMILY: Final = 4
SCORES: Final = {1: "task", 4: "family", 16: "suite"}  # tables of score intervals, by the number of tasks
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
    return measured_coverage(SCORES[max(count for count in SCORES if count <= tasks)], runs)


def difference_coverage(runs: int) -> Coverage | None:
    """Return the coverage of the interval of a difference on one task. Differences of equal entrants were simulated; a
    difference from an entrant whose runs are all alike is as uncertain as a score."""
    return _worst(measured_coverage(table, runs) for table in ("difference", SCORES[1]))


def pooled_coverage(table: str, tasks: int, runs: int) -> Coverage | None:
    """Return the coverage of intervals of summaries of all runs: ``interquartile_mean`` or ``optimality_gap``."""
    return measured_coverage(table if tasks >= SUITE else f"family_{table}", runs)


def misleading_rate(statement: str, runs: int) -> float | None:
    """Return how often at most a statement on one task set two entrants apart whose means are equal, with so few runs;
    None where it is about as rare as it claims to be. The worst is an entrant with two modes beside one whose runs are
    all alike.

    Args:
        statement: ``p`` for p < 0.05, ``first`` for P(first) > 0.95.
        runs: Of the entrant with the fewest.
    """
    rates = measured_coverage(f"unlike_{statement}", runs)
    return rates.high if rates and rates.high > 1.0 - NOMINAL_FROM else None


def deviation_coverage(tasks: int, runs: int) -> Coverage | None:
    """Return the coverage of the intervals of variance components, the worst of the three."""
    prefix = "tasks_" if tasks >= SUITE else ""
    return _worst(measured_coverage(f"{prefix}{table}", runs) for table in DEVIATIONS)


def _worst(tables: Iterable[Coverage | None]) -> Coverage | None:
    rates = [coverage for coverage in tables if coverage]
    return (
        Coverage(min(coverage.low for coverage in rates), max(coverage.high for coverage in rates)) if rates else None
    )


def measured_coverage(table: str, runs: int) -> Coverage | None:
    """Return the lowest and the highest rate of a table of `benchmarks/coverage.py`, with at most as many runs; None
    where it has none."""
    rows = list(measurements()["tables"][table].values())
    counts = [int(count) for count in rows[0] if int(count) <= runs]
    if not counts:
        return None
    rates = [row[str(max(counts))] for row in rows]
    return Coverage(min(rates), max(rates))


@cache
def measurements() -> dict[str, Any]:
    """Return what `benchmarks/coverage.py` measured last."""
    text = (resources.files("evopolicygym.reference") / "coverage.json").read_text()
    tables: dict[str, Any] = json.loads(text)
    return tables
