"""P(first): the probability that an entrant's true score is the highest, from draws of the means of all entrants.

Means of few observations are drawn from t distributions, not from resampled runs: two runs that happen to agree would
otherwise make an entrant sure of a place that it has not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from evopolicygym.analysis.scores import Matrix
from evopolicygym.analysis.stats.estimates import residual_mean_square

DRAWS: Final = 10_000
SEED: Final = 20_260_702


def first_on_task(matrices: Sequence[Matrix], generator: np.random.Generator, draws: int) -> list[float] | None:
    """Return P(first) of each entrant on one task, from runs x cases of each on the same cases; None where an entrant
    has one run. An entrant with fewer runs is taken to vary at least as much as those with more do on average."""
    fewest = min(len(matrix) for matrix in matrices)
    if fewest < 2 and len(matrices) > 1:
        return None
    cases = matrices[0].shape[1]
    weights = generator.standard_normal((draws, cases)) / math.sqrt(cases * max(cases - 1, 1))
    spreads = _run_spreads(matrices)
    drawn = np.stack(
        [_drawn_means(matrix, spread, weights, generator) for matrix, spread in zip(matrices, spreads, strict=True)],
        axis=1,
    )
    return shrunk(share_of_first(drawn), 0.5 ** (2 * fewest))


def first_over_tasks(scores: Matrix, generator: np.random.Generator, draws: int) -> list[float]:
    """Return P(first) of each entrant (column of tasks x entrants) on other tasks like these."""
    tasks = len(scores)
    deviations = scores - scores.mean(axis=0)
    drawn = generator.standard_normal((draws, tasks)) @ deviations / math.sqrt(tasks * max(tasks - 1, 1))
    spread = np.sqrt((tasks - 1) / generator.chisquare(max(tasks - 1, 1), size=(draws, 1)))
    return shrunk(share_of_first(scores.mean(axis=0) + drawn * spread), 0.5**tasks)


def share_of_first(drawn: Matrix) -> list[float]:
    """Return the share of draws (rows) in which each entrant (column) is highest; ties are split."""
    least = 1e-9 * np.abs(drawn).max(axis=1, keepdims=True)  # smaller differences come from the order of summation
    highest = drawn >= drawn.max(axis=1, keepdims=True) - least
    return [float(share) for share in (highest / highest.sum(axis=1, keepdims=True)).mean(axis=0)]


def shrunk(shares: Sequence[float], least: float) -> list[float]:
    """Move shares towards equal ones until none is above 1 - ``least``: the chance that all of so few observations
    favour an entrant that is no better."""
    count = len(shares)
    if count == 1:
        return [1.0]
    weight = min(least * count / (count - 1), 1.0)
    return [(1.0 - weight) * share + weight / count for share in shares]


def _run_spreads(matrices: Sequence[Matrix]) -> list[tuple[float, int]]:
    """Return the variance between the runs of each entrant, with its degrees of freedom."""
    own = [(float(matrix.mean(axis=1).var(ddof=1)) if len(matrix) > 1 else 0.0, len(matrix) - 1) for matrix in matrices]
    spreads = []
    for variance, degrees in own:
        others = [other for other in own if other[1] > degrees]
        borrowed = math.fsum(other for other, _ in others) / max(len(others), 1)
        spreads.append((borrowed, min(count for _, count in others)) if borrowed > variance else (variance, degrees))
    return spreads


def _drawn_means(matrix: Matrix, spread: tuple[float, int], weights: Matrix, generator: np.random.Generator) -> Matrix:
    """Draw the mean of an entrant: other cases, which all entrants share, by ``weights``; other runs by Student's t."""
    runs, cases = matrix.shape
    by_case = matrix.mean(axis=0)
    case_part = weights @ (by_case - by_case.mean())
    if runs > 1 and (between_cases := float(by_case.var(ddof=1)) / cases if cases > 1 else 0.0):
        # The residual is part of both margins, and counted once.
        residual = residual_mean_square(matrix) / (runs * cases)
        case_part = case_part * math.sqrt(max(between_cases - residual, 0.0) / between_cases)
    variance, degrees = spread
    other_runs = math.sqrt(variance / runs) * generator.standard_t(max(degrees, 1), len(weights))
    return np.asarray(matrix.mean() + case_part + other_runs)
