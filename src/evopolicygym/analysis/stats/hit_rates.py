"""Hit rates of edits, with Wilson intervals that allow for correlated edits within a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from scipy.special import ndtri, stdtrit

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class HitCount:
    """Number of edits of one kind in one run, and how many of them were hits. ``expected``: hits to expect if edits
    changed nothing. ``beyond_noise``: hits larger than what the cases explain; None where that is unknown."""

    n: int = 0
    hits: int = 0
    expected: float = 0.0
    beyond_noise: int | None = 0


@dataclass(frozen=True)
class HitRate:
    """Hit rate over the ``runs`` that have any such edit. With a single run the interval covers that run alone.
    ``by_chance``: the rate to expect if edits changed nothing. ``beyond_noise``: hits larger than what the cases
    explain."""

    n: int
    hits: int
    runs: int
    rate: float | None
    low: float | None
    high: float | None
    by_chance: float | None = None
    beyond_noise: int | None = None


def hit_rate(counts: Sequence[HitCount]) -> HitRate:
    """Compute the hit rate and its interval from one count per run."""
    counts = [count for count in counts if count.n]
    n, hits, runs = sum(count.n for count in counts), sum(count.hits for count in counts), len(counts)
    if not n:
        return HitRate(0, 0, 0, None, None, None)
    low, high = wilson(hits / n, n / design_effect(counts), t_quantile(runs - 1))
    beyond_noise = [count.beyond_noise for count in counts if count.beyond_noise is not None]
    return HitRate(
        n=n,
        hits=hits,
        runs=runs,
        rate=hits / n,
        low=low,
        high=high,
        by_chance=math.fsum(count.expected for count in counts) / n,
        beyond_noise=sum(beyond_noise) if len(beyond_noise) == runs else None,
    )


def wilson(rate: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's score interval; the number of observations need not be whole."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # Rounding may leave the rate just outside of its own interval.
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))


def design_effect(counts: Sequence[HitCount]) -> float:
    """Return the variance of the rate over runs relative to independent edits; at least 1, and 1 for a single run."""
    n, hits, runs = sum(count.n for count in counts), sum(count.hits for count in counts), len(counts)
    rate = hits / n
    if runs < 2 or rate in (0.0, 1.0):
        return 1.0
    between = runs / (runs - 1) * math.fsum((count.hits - rate * count.n) ** 2 for count in counts)
    return max(1.0, between / (n * rate * (1 - rate)))


@cache
def t_quantile(freedom: int) -> float:
    """Return the two-sided quantile of Student's t at ``CONFIDENCE``.

    Few runs show little of how runs differ, hence t. A single run (no degree of freedom) gets the normal quantile: its
    interval says nothing about other runs.
    """
    share = (1 + CONFIDENCE) / 2
    return float(stdtrit(freedom, share) if freedom else ndtri(share))
