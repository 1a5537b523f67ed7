"""Hit rates with Wilson intervals that know that the edits of one run are not independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Final

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class HitCount:
    """Edits of one kind in one run, and how many of them were hits."""

    n: int = 0
    hits: int = 0


@dataclass(frozen=True)
class HitRate:
    """Over ``runs`` that have any such edit. With one run the interval is of that run alone, and says so."""

    n: int
    hits: int
    runs: int
    rate: float | None
    low: float | None
    high: float | None


def hit_rate(counts: Sequence[HitCount]) -> HitRate:
    """One count per run."""
    counts = [count for count in counts if count.n]
    n, hits, runs = sum(count.n for count in counts), sum(count.hits for count in counts), len(counts)
    if not n:
        return HitRate(0, 0, 0, None, None, None)
    low, high = wilson(hits / n, n / design_effect(counts), t_quantile(runs - 1))
    return HitRate(n, hits, runs, hits / n, low, high)


def wilson(rate: float, n: float, z: float) -> tuple[float, float]:
    """The score interval, for a number of observations that need not be whole."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))  # also where rounding says otherwise


def design_effect(counts: Sequence[HitCount]) -> float:
    """Variance of the rate when runs are drawn, over that when edits are; at least 1. One run cannot tell: 1."""
    n, hits, runs = sum(count.n for count in counts), sum(count.hits for count in counts), len(counts)
    rate = hits / n
    if runs < 2 or rate in (0.0, 1.0):
        return 1.0
    between = runs / (runs - 1) * math.fsum((count.hits - rate * count.n) ** 2 for count in counts)
    return max(1.0, between / (n * rate * (1 - rate)))


@cache
def t_quantile(freedom: int) -> float:
    """Of Student's t, two-sided at ``CONFIDENCE``: few runs know little of how runs differ. Normal when there is one
    run, whose interval is not about other runs."""
    if freedom < 1:
        return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_inside(middle, freedom) < CONFIDENCE else (low, middle)
    return high


def student_inside(t: float, freedom: int) -> float:
    """P(|T| < t), by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cos2, odd = math.cos(angle) ** 2, freedom % 2
    term, series = math.cos(angle) if odd else 1.0, 0.0
    for k in range(1 + odd, freedom, 2):
        series += term
        term *= cos2 * k / (k + 1)
    if not odd:
        return math.sin(angle) * series
    return 2 / math.pi * (angle + math.sin(angle) * series)
