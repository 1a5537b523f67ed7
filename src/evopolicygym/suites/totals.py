"""Work and usage of all runs of a suite, and an estimate of the time that the rest takes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from evopolicygym.suites.status import SuiteRow, SuiteRunStatus

HIDDEN_SHARE: Final = 0.1  # of a run, for its hidden scoring
LEAST_DONE: Final = 0.05  # runs; with less there is nothing to estimate from


@dataclass(frozen=True)
class SuiteTotals:
    """Totals of a suite. ``statuses`` counts runs by status. ``tokens`` and ``dollars`` include attempts that were
    superseded; None if nothing is reported. ``elapsed_s`` is the time in which a run was played, without the time
    between an interruption and its continuation; ``remaining_s`` is an estimate from that, None without anything to go
    by."""

    runs: int
    scored: int
    statuses: dict[str, int]
    episodes: int
    budget: int
    tokens: float | None
    dollars: float | None
    elapsed_s: float
    remaining_s: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def suite_totals(rows: Sequence[SuiteRow], now: float | None = None) -> SuiteTotals:
    """Add up the rows of a suite."""
    elapsed_s = _elapsed_s(rows, time.time() if now is None else now)
    done = sum(map(_share_done, rows))
    playable = sum(row.status != SuiteRunStatus.UNREADY for row in rows)
    return SuiteTotals(
        runs=len(rows),
        scored=sum(row.is_over for row in rows),
        statuses=dict(Counter(str(row.status) for row in rows)),
        episodes=sum(row.charged for row in rows),
        budget=sum(row.budget for row in rows),
        tokens=_sum([row.tokens for row in rows], [row.wasted_tokens for row in rows]),
        dollars=_sum([row.dollars for row in rows], [row.wasted_dollars for row in rows]),
        elapsed_s=elapsed_s,
        remaining_s=elapsed_s * (playable - done) / done if LEAST_DONE <= done < playable else None,
    )


def _elapsed_s(rows: Sequence[SuiteRow], now: float) -> float:
    """Return the time in which at least one run was played."""
    periods = sorted((began, now if ended is None else ended) for row in rows for began, ended in row.periods)
    elapsed_s, played_until = 0.0, -math.inf
    for began, ended in periods:
        elapsed_s += max(0.0, ended - max(began, played_until))
        played_until = max(played_until, ended)
    return elapsed_s


def _share_done(row: SuiteRow) -> float:
    return 1.0 if row.is_over else (1 - HIDDEN_SHARE) * row.charged / max(1, row.budget)


def _sum(amounts: Sequence[float | None], wasted: Sequence[float]) -> float | None:
    reported = [amount for amount in amounts if amount is not None]
    return sum(reported) + sum(wasted) if reported or any(wasted) else None
