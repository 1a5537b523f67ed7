"""The worth of the feedback: the first submission against the selected one, and learning curves from episode 0.

The first ``ok`` submission shows what an agent could do before it had feedback on any policy of its own. The gain is
the score of the selected submission minus that of the first. docs/scoring.md defines every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.scales import bounds_of, scale_of
from evopolicygym.analysis.scores import Matrix, mean
from evopolicygym.analysis.stats.estimates import (
    ONE_RUN,
    Estimate,
    Interval,
    Number,
    estimate_difference,
    estimate_score,
)
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds
from evopolicygym.reference.scales import Scale
from evopolicygym.run_record import Result, RunRecord, SubmissionRecord

ROUNDING: Final = 1e-12  # of a scale
EPISODES: Final = (16, 32, 64, 128)  # where a learning curve is read
OK: Final = "ok"
NOT_MEASURED: Final = "the first submission was not measured on held-out"
NOTHING_VARIED: Final = "no interval: nothing varied"


@dataclass(frozen=True)
class Gain:
    """Selected minus first submission on one list of hidden cases.

    The interval of ``gain`` is over cases, of the differences by case: it says nothing about other runs. It is None
    where the differences do not vary: for one checkpoint, and for a single case. ``normalised`` is the gain in units of
    the task's scale, ``share`` its part of the selected submission's normalised score. Both are None without a scale,
    ``share`` also where the selected submission is not above the lower end of the scale.
    """

    first: float
    selected: float
    gain: Number
    normalised: float | None
    share: float | None


@dataclass(frozen=True)
class RunGain:
    """The worth of the feedback in one run. ``validation`` and ``heldout`` are None where the first ``ok`` submission
    was not measured there. ``unchanged``: no later submission had another checkpoint; None without an ``ok`` one."""

    submission: int | None
    validation: Gain | None
    heldout: Gain | None
    unchanged: bool | None


def run_gain(run: RunRecord) -> RunGain:
    """Compare the first ``ok`` submission of a finished run with the selected one."""
    first = _first(run)
    if first is None:
        return RunGain(None, None, None, None)
    unchanged = all(
        submission.checkpoint == first.checkpoint
        for submission in run.submissions
        if submission.number > first.number and not submission.refunded
    )
    validation, heldout = (_gain(pair, scale_of(run)) if pair else None for pair in _hidden_results(run))
    return RunGain(first.number, validation, heldout, unchanged)


def _first(run: RunRecord) -> SubmissionRecord | None:
    ok = [submission for submission in run.submissions if submission.verdict == OK]
    return ok[0] if ok and not run.entered else None


Pair = tuple[Result, Result]


def _hidden_results(run: RunRecord) -> tuple[Pair | None, Pair | None]:
    """Return the results of the first and the selected submission, on validation and on held-out, where both have one.
    In older records the held-out result of the winner is in the outcome alone."""
    first, outcome = _first(run), run.outcome
    if first is None or outcome is None or outcome.checkpoint is None:
        return None, None
    checkpoints = {checkpoint.hash: checkpoint for checkpoint in run.checkpoints}
    before, after = checkpoints[first.checkpoint], checkpoints[outcome.checkpoint]
    heldout = outcome.heldout if before is after else before.heldout
    return _pair(before.validation, after.validation), _pair(heldout, outcome.heldout)


def _pair(first: Result | None, selected: Result | None) -> Pair | None:
    """Return the results if both have returns. Imported runs may have only means."""
    return (first, selected) if first and selected and first.returns and selected.returns else None


def _gain(pair: Pair, scale: Scale | None) -> Gain:
    first, selected = (mean(result.returns) for result in pair)
    return Gain(
        first=first,
        selected=selected,
        gain=Number(selected - first, _interval(estimate_score(_differences([pair])))),
        normalised=None if scale is None else (selected - first) / scale.unit,
        share=None if scale is None else _part(selected - first, selected, scale),
    )


def _interval(estimate: Estimate) -> Interval | None:
    """Return the interval; None where nothing varied: equal differences on a few cases do not prove that all are
    equal."""
    return estimate.interval() if estimate.variance else None


def _differences(pairs: Sequence[Pair]) -> Matrix:
    """Return selected minus first by run and case."""
    return np.array([np.subtract(selected.returns, first.returns) for first, selected in pairs], dtype=np.float64)


@dataclass(frozen=True)
class LearningPoint:
    """After ``episodes`` train episodes, of ``steps`` steps together, the best validation mean of a submission became
    ``best``; it stays so until the next point."""

    episodes: int
    steps: int
    best: float


@dataclass(frozen=True)
class LearningCurve:
    """Best validation mean over train episodes and steps, from zero. Before the first point there is no policy.

    ``area``: mean height of the normalised curve from episode 0 to the end of the budget. It is 0 before the first
    submission's episodes are played, and wherever the best submission is not above the lower end of the scale; on scale
    2 it is at most 1. None without a scale. ``at``: height after so many episodes; None before the first point, and
    beyond the budget.
    """

    points: tuple[LearningPoint, ...]
    episodes: int
    steps: int
    area: float | None
    at: dict[int, float | None]


def learning_curve(run: RunRecord) -> LearningCurve | None:
    """Return the learning curve of a finished run; None if a submission that it could use was never validated."""
    if run.outcome is None or run.entered:
        return None
    validation = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    episodes, steps = 0, 0
    points: list[LearningPoint] = []
    for submission in run.submissions:
        if submission.refunded:
            continue
        episodes += submission.charged
        steps += sum(submission.train.lengths) if submission.train else 0
        if submission.verdict != OK:
            continue
        result = validation[submission.checkpoint]
        if result is None:
            return None
        if not points or result.mean > points[-1].best:
            points.append(LearningPoint(episodes, steps, result.mean))
    budget, scale = run.budget.total, scale_of(run)
    return LearningCurve(
        points=tuple(points),
        episodes=episodes,
        steps=steps,
        area=_area(points, max(budget, episodes), scale) if scale else None,
        at={mark: _height(points, mark) if mark <= budget else None for mark in EPISODES},
    )


def normalised_height(best: float, scale: Scale) -> float:
    """Return the height of the normalised curve: a submission below the scale counts as one at its lower end."""
    return max(float(scale.for_aggregates(np.array(best))), 0.0)


def _area(points: Sequence[LearningPoint], end: int, scale: Scale) -> float:
    until = [point.episodes for point in points[1:]] + [end]
    parts = [
        normalised_height(point.best, scale) * (to - point.episodes) for point, to in zip(points, until, strict=False)
    ]
    return sum(parts) / end


def _height(points: Sequence[LearningPoint], episodes: int) -> float | None:
    return next((point.best for point in reversed(points) if point.episodes <= episodes), None)


GAIN_COLUMNS: Final = (
    *("first_submission", "first_validation", "first_heldout", "gain_validation", "gain_heldout", "gain_share"),
    *("auc", *(f"at_{mark}" for mark in EPISODES), "unchanged"),
)


def gain_columns(gain: RunGain, curve: LearningCurve | None) -> dict[str, Any]:
    """Return one flat row of plain values; None is not measured."""
    validation, heldout = gain.validation, gain.heldout
    values = (
        *(gain.submission, validation and validation.first, heldout and heldout.first),
        *(validation and validation.gain.value, heldout and heldout.gain.value, heldout and heldout.share),
        *(curve and curve.area, *(curve and curve.at[mark] for mark in EPISODES), gain.unchanged),
    )
    return dict(zip(GAIN_COLUMNS, values, strict=True))


@dataclass(frozen=True)
class CurveMeans:
    """Means over the learning curves of several runs, with intervals over runs: one run has none. A number is None
    where one run lacks it."""

    runs: int
    area: Number | None
    at: dict[int, Number | None]


def curve_means(curves: Sequence[LearningCurve | None], bounds: Bounds = UNBOUNDED) -> CurveMeans:
    """Average the learning curves of runs of one entrant on one task, under one comparable_id. Intervals of scores end
    at the ``bounds`` of possible returns."""
    area = _within(_mean_of_runs(curve.area if curve else None for curve in curves), Bounds(low=0.0))
    at = {mark: _mean_of_runs(curve.at[mark] if curve else None for curve in curves) for mark in EPISODES}
    return CurveMeans(len(curves), area, {mark: _within(score, bounds) for mark, score in at.items()})


def _within(number: Number | None, bounds: Bounds) -> Number | None:
    return Number(number.value, number.interval.clipped(bounds)) if number and number.interval else number


@dataclass(frozen=True)
class EntrantGain:
    """Means over the runs of one entrant on one task.

    ``first``, ``gain`` and ``share`` are on held-out and cover the ``measured`` runs whose first submission was
    measured there; ``scope`` says what the interval of ``gain`` is over. On validation the selected submission was
    chosen for its mean: that gain is optimistic. ``area``, ``at`` and ``curve`` are None where one run has no number;
    the intervals of ``area`` and ``at`` are over runs. ``curve``: mean normalised height from so many episodes on.
    ``unchanged`` of ``started`` runs with an ``ok`` submission never changed their policy after it.
    """

    runs: int
    started: int
    unchanged: int
    measured: int
    first: float | None
    gain: Number | None
    scope: str
    share: float | None
    validation_first: float | None
    validation_gain: Number | None
    area: Number | None
    at: dict[int, Number | None]
    curve: tuple[tuple[int, float], ...] | None


@dataclass(frozen=True)
class GainDifference:
    """The worth of the feedback to two entrants on one task, on held-out, and the first's gain minus the second's,
    paired by case. ``scope`` says what the interval of the difference is over. ``at`` has the scores after so many
    episodes, of both. The intervals of areas, of these scores and of their differences are over runs."""

    firsts: tuple[float | None, float | None]
    gains: tuple[float | None, float | None]
    difference: Number | None
    scope: str
    areas: tuple[Number | None, Number | None]
    area_difference: Number | None
    at: tuple[dict[int, Number | None], dict[int, Number | None]]
    at_difference: dict[int, Number | None]


def gain_difference(first: Sequence[RunRecord], second: Sequence[RunRecord]) -> GainDifference | None:
    """Compare the gains of two entrants under one comparable_id; None without runs of both."""
    gain, other = entrant_gain(first), entrant_gain(second)
    if gain is None or other is None:
        return None
    pairs = [[pair for run in runs if (pair := _hidden_results(run)[1])] for runs in (first, second)]
    bounds = bounds_of(first[0]).of_difference
    curves = [[*map(learning_curve, runs)] for runs in (first, second)]
    estimate = estimate_difference(*map(_differences, pairs)) if all(pairs) else None
    return GainDifference(
        firsts=(gain.first, other.first),
        gains=(gain.gain.value if gain.gain else None, other.gain.value if other.gain else None),
        difference=Number(estimate.value, None) if estimate and estimate.one_run else _number(estimate),
        scope=ONE_RUN if estimate and estimate.one_run else _scope(estimate),
        areas=(gain.area, other.area),
        area_difference=_difference_of_runs(*([curve.area if curve else None for curve in runs] for runs in curves)),
        at=(gain.at, other.at),
        at_difference={mark: _within(_difference_of_runs(*_at(curves, mark)), bounds) for mark in EPISODES},
    )


def _at(curves: Sequence[Sequence[LearningCurve | None]], mark: int) -> list[list[float | None]]:
    return [[curve.at[mark] if curve else None for curve in runs] for runs in curves]


def _difference_of_runs(first: Sequence[float | None], second: Sequence[float | None]) -> Number | None:
    """Return the difference of the means over runs with its interval over runs; None where a run has no number."""
    numbers, others = _by_run(first), _by_run(second)
    return None if numbers is None or others is None else _number(estimate_difference(numbers, others))


def _by_run(values: Iterable[float | None]) -> Matrix | None:
    """Return one number of each run as runs x 1; None where a run has none."""
    numbers = list(values)
    present = [number for number in numbers if number is not None]
    return np.array(present, dtype=np.float64)[:, None] if len(present) == len(numbers) else None


def _mean_of_runs(values: Iterable[float | None]) -> Number | None:
    """Return the mean with its interval over runs, None where a run has no number. One run has no interval."""
    column = _by_run(values)
    return None if column is None else _number(estimate_score(column))


def entrant_gain(runs: Sequence[RunRecord]) -> EntrantGain | None:
    """Average over runs of one entrant on one task, under one comparable_id; None without runs in which
    an agent worked."""
    runs = [run for run in runs if not run.entered]
    if not runs:
        return None
    gains, curves = [run_gain(run) for run in runs], [learning_curve(run) for run in runs]
    means, pairs = curve_means(curves, bounds_of(runs[0])), [_hidden_results(run) for run in runs]
    validation, heldout = (_estimate([pair[split] for pair in pairs]) for split in (0, 1))
    measured = [gain.heldout for gain in gains if gain.heldout]
    return EntrantGain(
        runs=len(runs),
        started=sum(gain.submission is not None for gain in gains),
        unchanged=sum(gain.unchanged is True for gain in gains),
        measured=len(measured),
        first=mean(gain.first for gain in measured) if measured else None,
        gain=_within(_number(heldout), bounds_of(runs[0]).of_difference),
        scope=_scope(heldout),
        share=_share(measured, scale_of(runs[0])),
        validation_first=_mean_first([gain.validation for gain in gains if gain.validation]),
        validation_gain=_within(_number(validation), bounds_of(runs[0]).of_difference),
        area=means.area,
        at=means.at,
        curve=_mean_curve(curves, scale_of(runs[0])),
    )


def _mean_curve(curves: Sequence[LearningCurve | None], scale: Scale | None) -> tuple[tuple[int, float], ...] | None:
    measured = [curve for curve in curves if curve]
    if scale is None or len(measured) < len(curves):
        return None
    heights = [
        tuple((point.episodes, normalised_height(point.best, scale)) for point in curve.points) for curve in measured
    ]
    return mean_steps(heights)


def mean_steps(curves: Sequence[Sequence[tuple[int, float]]]) -> tuple[tuple[int, float], ...]:
    """Average step functions that are 0 until their first point."""
    episodes = sorted({0, *(at for curve in curves for at, _ in curve)})
    return tuple((at, mean(_step(curve, at) for curve in curves)) for at in episodes)


def _step(curve: Sequence[tuple[int, float]], episodes: int) -> float:
    return next((height for at, height in reversed(curve) if at <= episodes), 0.0)


def _estimate(pairs: Sequence[Pair | None]) -> Estimate | None:
    measured = [pair for pair in pairs if pair]
    return estimate_score(_differences(measured)) if measured else None


def _number(estimate: Estimate | None) -> Number | None:
    return Number(estimate.value, _interval(estimate)) if estimate else None


def _scope(estimate: Estimate | None) -> str:
    if estimate is None:
        return NOT_MEASURED
    return estimate.scope if estimate.variance else NOTHING_VARIED


def _mean_first(gains: Sequence[Gain]) -> float | None:
    return mean(gain.first for gain in gains) if gains else None


def _share(gains: Sequence[Gain], scale: Scale | None) -> float | None:
    """Return the share of the mean gain in the mean normalised score: a mean of shares would divide by small scores."""
    if not gains or scale is None:
        return None
    return _part(mean(gain.gain.value for gain in gains), mean(gain.selected for gain in gains), scale)


def _part(gain: float, selected: float, scale: Scale) -> float | None:
    """Return the part of a gain in what is above the lower end; None where that is nothing, up to rounding."""
    above = selected - scale.low
    return gain / above if above > ROUNDING * scale.unit else None
