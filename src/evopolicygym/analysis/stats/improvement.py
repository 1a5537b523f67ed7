"""P(improvement): the probability that a run of one entrant beats a run of another on the same held-out cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.special import stdtrit

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.by_task import bounded_mean
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, Interval, Number


def share_of_wins(first: Matrix, second: Matrix) -> float:
    """Return the share of pairs of runs that the first wins; ties count half. One run at a time: all pairs at once need
    too much memory."""
    pairs = len(first) * len(second)
    above = sum(int((run > second).sum()) for run in first)
    not_below = sum(int((run >= second).sum()) for run in first)
    return (above + not_below) / (2 * pairs)


def improvement(first: Matrix, second: Matrix) -> Number | None:
    """Return P(improvement) on one task from the scores of runs, with Newcombe's (2006) interval over runs; None with
    one run of an entrant."""
    if min(len(first), len(second)) < 2:
        return None
    share = share_of_wins(first, second)
    return Number(share, _newcombe(share, len(first), len(second)))


def improvement_over_tasks(first: Sequence[Matrix], second: Sequence[Matrix]) -> Number | None:
    """Return the mean of P(improvement) over tasks, with an interval over tasks; None where a task has one run of an
    entrant, and for a single task the interval over runs."""
    pairs = list(zip(first, second, strict=True))
    if any(min(map(len, pair)) < 2 for pair in pairs):
        return None
    return improvement(*pairs[0]) if len(pairs) == 1 else bounded_mean([share_of_wins(*pair) for pair in pairs])


def _newcombe(share: float, first: int, second: int) -> Interval:
    """Return the shares that a score test does not refuse: its method 5, whose variance is that of Hanley and McNeil
    (1982) at the tested share, with the quantile of Student's t. Unlike a Wald interval it has a width at 0 and 1."""
    z = float(stdtrit(first + second - 2, (1 + CONFIDENCE_LEVEL) / 2))

    def excess(theta: float) -> float:
        others = (first + second) / 2 - 1
        factor = 1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return float((theta - share) ** 2 - z**2 * theta * (1 - theta) * factor / (first * second))

    # At 0 and 1 the excess of the share itself is 0, and the end of the interval is the other root.
    inside = min(max(share, 1e-9), 1.0 - 1e-9)
    low = 0.0 if share == 0.0 else _root(excess, inside, 0.0)
    high = 1.0 if share == 1.0 else _root(excess, inside, 1.0)
    return Interval(low, high)


def _root(function: Callable[[float], float], below: float, above: float) -> float:
    """Return where a function that is negative at ``below`` becomes positive, by bisection."""
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (middle, above) if function(middle) < 0.0 else (below, middle)
    return above
