"""What runs cost. Unknown stays unknown: one run without a number leaves the entrant's mean without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from evopolicygym.analysis.scores import mean_if_known
from evopolicygym.run_record import RunRecord

# The keys of ``usage`` in run.json that are read: numbers for the whole run. Cached input is not part of input.
INPUT: Final = "input_tokens"
CACHED: Final = "cached_tokens"
OUTPUT: Final = "output_tokens"
DOLLARS: Final = "dollars"


@dataclass(frozen=True)
class Cost:
    """Means over runs. ``wall_s`` is from opening to closing: hidden scoring is not the agent's time."""

    input_tokens: float | None
    cached_tokens: float | None
    output_tokens: float | None
    dollars: float | None
    wall_s: float | None


def cost(runs: Iterable[RunRecord]) -> Cost:
    listed = list(runs)
    return Cost(
        input_tokens=mean_if_known(_usage(run, INPUT) for run in listed),
        cached_tokens=mean_if_known(_usage(run, CACHED) for run in listed),
        output_tokens=mean_if_known(_usage(run, OUTPUT) for run in listed),
        dollars=mean_if_known(_usage(run, DOLLARS) for run in listed),
        wall_s=mean_if_known(_wall_s(run) for run in listed),
    )


def per_dollar(score: float | None, dollars: float | None) -> float | None:
    return score / dollars if score is not None and dollars else None


def pareto(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Names of (dollars, score) that no other point beats in one and equals or beats in the other."""
    return {name for name, point in points.items() if not any(_dominates(other, point) for other in points.values())}


def _dominates(other: tuple[float, float], point: tuple[float, float]) -> bool:
    return other != point and other[0] <= point[0] and other[1] >= point[1]


def _usage(run: RunRecord, key: str) -> float | None:
    value = (run.usage or {}).get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wall_s(run: RunRecord) -> float | None:
    return (run.times.closed - run.times.opened).total_seconds() if run.times.closed else None
