"""Cost of runs, scores at a fixed cost, and the Pareto front of cost and score.

A cost is None (unknown) as soon as one run of the entrant has no number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from evopolicygym.analysis.gain import normalised_height
from evopolicygym.analysis.leaderboard.selection import mean_candidates
from evopolicygym.analysis.scales import counted_runs, scale_of
from evopolicygym.analysis.scores import mean, mean_if_known, run_score
from evopolicygym.analysis.stats.by_task import mean_over_tasks
from evopolicygym.analysis.stats.estimates import Interval, Number, average, estimate_score
from evopolicygym.analysis.stats.measured import Coverage, coverage
from evopolicygym.analysis.stats.pareto import Front, pareto_front
from evopolicygym.run_record import RunRecord

# Keys of ``usage`` in run.json, for the whole run. Cached input is not part of input.
INPUT: Final = "input_tokens"
CACHED: Final = "cached_tokens"
OUTPUT: Final = "output_tokens"
DOLLARS: Final = "dollars"
AT_LEAST: Final = "at_least"  # names the amounts that are lower bounds, because a turn was not metered
# Keys of ``usage`` of a turn.
TURN_DOLLARS: Final = "cost_usd"
TURN_TOKENS: Final = ("fresh_input", "cache_read", "cache_write", "output")
TOKENS: Final = "tokens"
MARKS: Final = 4  # amounts at which scores are read
OK: Final = "ok"
RunsByTask = Mapping[str, Sequence[RunRecord]]
Scores = Mapping[str, tuple[Number, dict[str, float]]]  # by entrant: over tasks, and by task


@dataclass(frozen=True)
class MeanCost:
    """Mean cost per run. ``wall_s`` is from opening to closing: hidden scoring is not the agent's time."""

    input_tokens: float | None
    cached_tokens: float | None
    output_tokens: float | None
    dollars: float | None
    wall_s: float | None


@dataclass(frozen=True)
class ScoreAtCost:
    """Normalised score that a run has after so many dollars or tokens (``unit``), as a mean over tasks, with an
    interval over runs: the best validation mean of the submissions of turns that had ended by then. None where it is
    unknown: where a cost was not metered, or the amount was reached within a turn that made submissions."""

    unit: str
    amount: float
    score: Number | None


@dataclass(frozen=True)
class CostRow:
    """Cost of one entrant. None: unknown.

    ``checkpoints``: mean number of distinct candidates. ``dollars`` of a run, as a mean over the tasks of the first
    aggregate (Core16, or the shared tasks), with an interval over runs, and ``score`` on the same tasks.
    ``score_per_dollar`` is None unless the score, without bounds, is surely above 0 over tasks like these: only then is
    it a share of something. ``front``: whether an entrant is on the Pareto front, with tasks as the sample;
    ``pareto``: whether it is by these very means. ``coverage``: measured coverage of intervals over runs, with so many
    tasks and runs.
    """

    entrant: str
    runs: int
    checkpoints: float | None
    cost: MeanCost
    dollars: Number | None
    score: Number | None
    score_per_dollar: float | None
    pareto: bool | None
    front: Front | None
    coverage: Coverage | None
    at: tuple[ScoreAtCost, ...]


def mean_cost(runs: Iterable[RunRecord]) -> MeanCost:
    """Average the cost of runs; None where one of them has no number."""
    listed = list(runs)
    return MeanCost(
        input_tokens=mean_if_known(_usage(run, INPUT) for run in listed),
        cached_tokens=mean_if_known(_usage(run, CACHED) for run in listed),
        output_tokens=mean_if_known(_usage(run, OUTPUT) for run in listed),
        dollars=mean_if_known(_usage(run, DOLLARS) for run in listed),
        wall_s=mean_if_known(_wall_s(run) for run in listed),
    )


def cost_rows(played: Mapping[str, RunsByTask], scores: Scores) -> list[CostRow]:
    """Return a row for each entrant.

    Args:
        played: Runs by entrant and task.
        scores: Normalised scores of the entrants that have all tasks of an aggregate, over its tasks and by task.
    """
    tasks = list(next(iter(scores.values()))[1]) if scores else []
    ranked = {label: {task: played[label][task] for task in tasks} for label in played if label in scores}
    dollars = {label: _dollars(runs) for label, runs in ranked.items()}
    priced = [label for label in ranked if dollars[label] is not None]
    costs = {label: [mean(_amounts(runs, DOLLARS)) for runs in ranked[label].values()] for label in priced}
    points = {label: (mean(costs[label]), scores[label][0].value) for label in priced}
    fronts = pareto_front([[*scores[label][1].values()] for label in priced], [costs[label] for label in priced])
    front, best, marks = dict(zip(priced, fronts, strict=True)), pareto(points), _marks(ranked)
    return [
        CostRow(
            entrant=label,
            runs=sum(map(len, by_task.values())),
            checkpoints=mean_candidates([run for runs in by_task.values() for run in runs]),
            cost=mean_cost(run for runs in by_task.values() for run in runs),
            dollars=dollars.get(label),
            score=_score(scores, label),
            score_per_dollar=_per_dollar(_score(scores, label), dollars.get(label), ranked.get(label, {})),
            pareto=label in best if label in priced else None,
            front=front.get(label) if len(priced) > 1 else None,
            coverage=coverage(len(tasks), min(map(len, ranked[label].values()))) if label in ranked else None,
            at=tuple(_score_at(ranked[label], *mark) for mark in marks) if label in ranked else (),
        )
        for label, by_task in sorted(played.items())
    ]


def _score(scores: Scores, label: str) -> Number | None:
    return scores[label][0] if label in scores else None


def pareto(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Return the names of the (dollars, score) points on the Pareto front: no other point dominates them."""
    return {name for name, point in points.items() if not any(_dominates(other, point) for other in points.values())}


def _dominates(other: tuple[float, float], point: tuple[float, float]) -> bool:
    return other != point and other[0] <= point[0] and other[1] >= point[1]


def _per_dollar(score: Number | None, dollars: Number | None, runs: RunsByTask) -> float | None:
    """Return the score per dollar of an entrant whose scores, without bounds, are above 0 over tasks like these."""
    if score is None or dollars is None or not dollars.value:
        return None
    interval = mean_over_tasks([_unbounded_score(listed) for listed in runs.values()]).interval
    return score.value / dollars.value if interval and interval.low > 0.0 else None


def _unbounded_score(runs: Sequence[RunRecord]) -> float:
    """Return the normalised score on a task. Bounds would lift the mean of scores that lie about 0 above it."""
    scale = scale_of(runs[0])
    assert scale is not None  # tasks of an aggregate have one
    return scale.normalise(float(counted_runs([run_score(run) for run in runs], scale).mean()))


def _dollars(runs: RunsByTask) -> Number | None:
    """Return the mean over tasks of the dollars of a run; None where a run has no number."""
    columns = [_amounts(listed, DOLLARS) for listed in runs.values()]
    complete = all(len(column) == len(listed) for column, listed in zip(columns, runs.values(), strict=True))
    return _mean_over_runs(columns) if columns and complete else None


def _amounts(runs: Sequence[RunRecord], key: str) -> list[float]:
    return [amount for run in runs if (amount := _usage(run, key)) is not None]


def _mean_over_runs(columns: Sequence[Sequence[float]]) -> Number:
    """Return the mean over tasks of one number for each run, with an interval over runs; one run has none."""
    estimate = average([estimate_score(np.array(column, dtype=np.float64)[:, None]) for column in columns])
    interval = estimate.interval() if estimate.varies and not estimate.one_run else None
    return Number(estimate.value, Interval(max(interval.low, 0.0), interval.high) if interval else None)


def _marks(ranked: Mapping[str, RunsByTask]) -> list[tuple[str, float]]:
    """Return round amounts at which runs are compared: dollars where all of them are known, else tokens."""
    runs = [run for by_task in ranked.values() for listed in by_task.values() for run in listed]
    for unit in (DOLLARS, TOKENS):
        totals = [total for run in runs if (total := _spent(run, unit)[-1:])]
        positive = [total for (total,) in totals if total]
        if positive and len(positive) == len(runs):
            last = math.floor(2 * math.log10(max(positive)) + 1e-9)
            return [(unit, _round(step)) for step in range(last - MARKS + 1, last + 1)]
    return []


def _round(step: int) -> float:
    """Return 1, 3, 10, 30 and so on for 0, 1, 2, 3."""
    return float(f"{(3 if step % 2 else 1) * 10.0 ** (step // 2):.1g}")


def _score_at(runs: RunsByTask, unit: str, amount: float) -> ScoreAtCost:
    columns = [[_height_at(run, unit, amount) for run in listed] for listed in runs.values()]
    reached = [[height for height in column if height is not None] for column in columns]
    complete = all(len(heights) == len(column) for heights, column in zip(reached, columns, strict=True))
    return ScoreAtCost(unit, amount, _mean_over_runs(reached) if complete else None)


def _height_at(run: RunRecord, unit: str, amount: float) -> float | None:
    """Return the normalised score of a run after so much was spent; 0 before its first submission."""
    spent, scale = _spent(run, unit), scale_of(run)
    if not spent or scale is None:
        return None
    ended = sum(total is not None and total <= amount for total in spent)
    made = run.turns[ended - 1].submissions if ended else 0
    if ended < len(spent) and run.turns[ended].submissions > made:
        return None
    validation = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    results = [
        validation.get(item.checkpoint) for item in run.submissions if item.verdict == OK and item.number <= made
    ]
    if any(result is None for result in results):
        return None
    return max((normalised_height(result.mean, scale) for result in results if result), default=0.0)


def _spent(run: RunRecord, unit: str) -> list[float | None]:
    """Return what was spent by the end of each turn; None from the first turn on that was not metered."""
    totals: list[float | None] = []
    total: float | None = 0.0
    for turn in run.turns:
        spent = _of_turn(turn.usage or {}, unit)
        total = None if total is None or spent is None else total + spent
        totals.append(total)
    return totals


def _of_turn(usage: Mapping[str, object], unit: str) -> float | None:
    if unit == DOLLARS:
        return _amount(usage.get(TURN_DOLLARS))
    fresh, *cached, output = (_amount(usage.get(kind)) for kind in TURN_TOKENS)
    return None if fresh is None or output is None else fresh + output + math.fsum(part or 0.0 for part in cached)


def _usage(run: RunRecord, key: str) -> float | None:
    """Return an amount of a whole run; None where it is missing, and where it is only known to be at least so much."""
    usage = run.usage or {}
    bounds = usage.get(AT_LEAST)
    return None if isinstance(bounds, list) and key in bounds else _amount(usage.get(key))


def _amount(value: object) -> float | None:
    """Return an amount from a record: only numbers that can be one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0.0 <= value < math.inf else None  # type: ignore[operator, arg-type]


def _wall_s(run: RunRecord) -> float | None:
    return (run.times.closed - run.times.opened).total_seconds() if run.times.closed else None
