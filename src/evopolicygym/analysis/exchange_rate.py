"""The exchange rate of a score: how many episodes and steps a baseline needs to reach it.

A curve reaches a score at its first point from which a learner that stops there scores at least as much, selected on
validation as in a run. The median over seeds counts a seed that did not reach it as more than any number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.anchors import differing_facts
from evopolicygym.reference.curves import CurveRecord, MeasuredPoint
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class ExchangeRate:
    """The cost of a score with one algorithm. ``episodes`` and ``steps`` are medians over ``seeds`` trainings, and None
    if half of them or more did not reach it within ``trained_steps``."""

    task: str
    algorithm: str
    score: float
    seeds: int
    reached: int
    episodes: int | None
    steps: int | None
    trained_steps: int

    def __str__(self) -> str:
        return f"{self.algorithm}: {self.words}"

    @property
    def words(self) -> str:
        """The cost without the name of the algorithm."""
        if self.steps is None:
            return f"not reached within {self.trained_steps:,} steps ({self.reached} of {self.seeds})"
        return f"{self.episodes:,} episodes, {self.steps:,} steps"


def first_reaching(curve: CurveRecord, score: float) -> MeasuredPoint | None:
    """Return the first point of a curve whose selected checkpoint scores at least ``score`` on held-out cases."""
    return next((point for point, selected in curve.selected() if selected >= score), None)


def exchange_rate(curves: Sequence[CurveRecord], score: float) -> ExchangeRate:
    """Return the exchange rate of a score on curves of one task and one algorithm, one for each seed."""
    points = [first_reaching(curve, score) for curve in curves]
    reached = [point for point in points if point]
    missing = [math.inf] * (len(points) - len(reached))
    steps = statistics.median([*(point.steps for point in reached), *missing])
    episodes = statistics.median([*(point.episodes for point in reached), *missing])
    return ExchangeRate(
        task=curves[0].task,
        algorithm=curves[0].algorithm,
        score=score,
        seeds=len(points),
        reached=len(reached),
        episodes=None if math.isinf(episodes) else round(episodes),
        steps=None if math.isinf(steps) else round(steps),
        trained_steps=min((curve.points[-1].steps for curve in curves if curve.points), default=0),
    )


def exchange_rates(curves: Iterable[CurveRecord], run: RunRecord, score: float) -> list[ExchangeRate]:
    """Return the exchange rate of a score on the task and cases of a run, with every algorithm that was trained there
    and measured on as many held-out cases."""
    groups: dict[str, list[CurveRecord]] = {}
    for curve in curves:
        alike = curve.task == run.task.id and curve.heldout_cases == run.options.heldout_cases
        if alike and not differing_facts(curve.fingerprint, run):
            groups.setdefault(curve.algorithm, []).append(curve)
    return [exchange_rate(group, score) for _, group in sorted(groups.items())]
