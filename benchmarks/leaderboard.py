"""Measures the statistics of 16 tasks x 5 entrants x 5 runs with 10,000 draws, as multiples of plain sums.

    python benchmarks/leaderboard.py

The unit is one pass of `math.fsum` over all returns of all runs 10,000 times over, which is what a bootstrap in plain
Python would have to do at least (estimated from 20 passes).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from evopolicygym.analysis.anchors import NoAnchors
from evopolicygym.analysis.leaderboard.aggregates import aggregate
from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskEntry, TaskResults
from evopolicygym.analysis.leaderboard.task_table import task_table
from evopolicygym.analysis.scores import task_score
from evopolicygym.analysis.stats.first_place import DRAWS
from evopolicygym.reference.scales import scales

ENTRANTS, RUNS, CASES, PASSES = 5, 5, 32, 20


def main() -> None:
    generator = np.random.default_rng(0)
    fields = {task: _field(task, generator) for task in scales()}
    tables_s = _seconds(lambda: [task_table(results) for results in fields.values()])
    aggregate_s = _seconds(lambda: aggregate("core16", list(scales()), fields))
    returns = [row for results in fields.values() for entry in results.entries for row in _rows(entry)]
    plain_s = _seconds(lambda: [math.fsum(row) for _ in range(PASSES) for row in returns]) * DRAWS / PASSES
    print(f"{'part':22}{'share of plain sums':>20}{'seconds':>10}")
    for name, seconds in (("task tables", tables_s), ("aggregate of 16", aggregate_s)):
        print(f"{name:22}{seconds / plain_s:>20.3f}{seconds:>10.2f}")
    print(f"{'plain sums, no tables':22}{1.0:>20.3f}{plain_s:>10.2f}")


def _field(task: str, generator: np.random.Generator) -> TaskResults:
    cases = generator.normal(size=CASES)
    matrices = [
        cases + generator.normal(size=(RUNS, 1)) + generator.normal(size=(RUNS, CASES)) for _ in range(ENTRANTS)
    ]
    entries = [
        TaskEntry(f"entrant {i}", EntryKind.RUNS, task_score(matrix), matrix) for i, matrix in enumerate(matrices)
    ]
    return TaskResults(task, "c-0", CASES, tuple(entries), (), NoAnchors("none"), scales()[task])


def _rows(entry: TaskEntry) -> list[list[float]]:
    assert entry.matrix is not None
    rows: list[list[float]] = entry.matrix.tolist()
    return rows


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
