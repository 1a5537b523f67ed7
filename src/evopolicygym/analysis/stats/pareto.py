"""The Pareto front of score against cost, and how sure it is with tasks as the sample.

An entrant is off the front for sure where another one is surely better and surely cheaper, and on it for sure where it
is surely better or surely cheaper than each of the others. Both are judged by paired tests over tasks, with Holm's
correction over all of them, so that with a probability of 95 % no entrant of the table is misplaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import combinations

from evopolicygym.analysis.stats.by_task import compare_by_task
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL
from evopolicygym.analysis.stats.multiple_testing import holm

Points = Sequence[Sequence[float]]  # one number per task, by entrant
Signs = dict[tuple[int, int], int]  # 1: the first is surely higher, -1: lower, 0: not known


class Front(StrEnum):
    """Whether an entrant is on the Pareto front."""

    SURELY = "surely"
    POSSIBLY = "possibly"
    NO = "no"


def pareto_front(scores: Points, costs: Points) -> list[Front]:
    """Return where each entrant stands, from its score and its cost on each task; all have the same tasks."""
    better, dearer = _sure_signs(scores, costs)
    entrants = range(len(scores))

    def dominates(i: int, j: int) -> bool:
        above, below = better[i, j] > 0, dearer[i, j] < 0
        return (above and (below or costs[i] == costs[j])) or (below and scores[i] == scores[j])

    def is_safe(i: int, j: int) -> bool:
        return better[i, j] > 0 or dearer[i, j] < 0

    return [
        Front.NO if any(dominates(j, i) for j in entrants if j != i)
        else Front.SURELY if all(is_safe(i, j) for j in entrants if j != i)
        else Front.POSSIBLY
        for i in entrants
    ]  # fmt: skip


def _sure_signs(scores: Points, costs: Points) -> tuple[Signs, Signs]:
    """Compare every two entrants in both, with Holm's correction over all tests together."""
    pairs = list(combinations(range(len(scores)), 2))
    tests = [compare_by_task(points[i], points[j]) for points in (scores, costs) for i, j in pairs]
    corrected = holm([test.p for test in tests])
    signs = [
        (1 if test.difference.value > 0 else -1) if p is not None and p <= 1.0 - CONFIDENCE_LEVEL else 0
        for test, p in zip(tests, corrected, strict=True)
    ]
    halves = (signs[: len(pairs)], signs[len(pairs) :])
    return tuple(  # type: ignore[return-value]
        {pair: sign for (i, j), s in zip(pairs, half, strict=True) for pair, sign in (((i, j), s), ((j, i), -s))}
        for half in halves
    )
