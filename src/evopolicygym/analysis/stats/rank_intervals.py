"""Ranks with intervals: which places are possible, given which differences are real.

A set of places that holds the true one: an entrant is behind everybody who is surely better and ahead of everybody who
is surely worse, each pair judged by its own difference, with Bonferroni's correction for the number of others. Unlike
percentiles of drawn ranks it stays right when entrants are close (Mogstad et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.stats.estimates import LEVEL, Estimate


@dataclass(frozen=True)
class Places:
    first: int
    last: int


def places(count: int, difference: Callable[[int, int], Estimate]) -> list[Places]:
    """``difference(i, j)`` is the score of i minus that of j. Called once for each pair."""
    level = 1.0 - (1.0 - LEVEL) / max(count - 1, 1)
    surer = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            surer[i][j] = _sign(difference(i, j), level)
            surer[j][i] = -surer[i][j]
    return [_places(row) for row in surer]


def _places(row: Sequence[int]) -> Places:
    return Places(1 + sum(sign < 0 for sign in row), len(row) - sum(sign > 0 for sign in row))


def _sign(difference: Estimate, level: float) -> int:
    """1 surely above, -1 surely below, 0 undecided."""
    interval = difference.interval(level)
    if interval is None:
        return 0
    return int(interval.low > 0.0) - int(interval.high < 0.0)
