"""The scale of a run's scores.

Tasks of Core16 have a stored scale. Generated tasks have theirs in the record. Tasks with rules of their own (shifted
ones, and the user's) get one from anchors that fit the run, if there are such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.anchors import SHIFTED, NoAnchors, fitting_anchors
from evopolicygym.analysis.scores import Matrix, RunScore, run_score, task_score
from evopolicygym.errors import UserError
from evopolicygym.record_checks import is_scale
from evopolicygym.reference import CURRENT_SCALE, SCALE_VERSIONS
from evopolicygym.reference.anchors import AnchorFile, TaskAnchors
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds, return_bounds
from evopolicygym.reference.scales import Scale, scales
from evopolicygym.run_record import RunRecord, TaskScale


class ChosenScale(TaskScale):
    """A scale that this analysis gave to a record."""

    version: int


def scale_of(run: RunRecord) -> Scale | None:
    """Return the scale of a run's scores: the one in its record, else that of its task. A shifted task has none: its
    rules are not those that were measured."""
    recorded = run.task.scale
    if recorded and recorded.high > recorded.low:
        version = recorded.version if isinstance(recorded, ChosenScale) else CURRENT_SCALE
        return Scale(recorded.low, recorded.high, version)
    return None if run.options.variant == SHIFTED else scales().get(run.task.id)


def bounds_of(run: RunRecord) -> Bounds:
    """Return the possible returns of a run's task. A shifted or generated task states none."""
    return UNBOUNDED if run.options.variant == SHIFTED else return_bounds().get(run.task.id, UNBOUNDED)


def aggregate_bounds(used: Iterable[Scale]) -> Bounds:
    """Return the bounds of normalised scores on these scales."""
    return Bounds(0.0, 1.0) if all(scale.is_bounded for scale in used) else UNBOUNDED


def with_scales(runs: Iterable[RunRecord], files: Sequence[AnchorFile], version: int) -> list[RunRecord]:
    """Return records with the scale that an analysis uses: of this version, and from anchors where a task has none.

    Raises:
        UserError: There is no such version.
    """
    if version not in SCALE_VERSIONS:
        raise UserError(f"there is no scale {version}", f"Choose one of {', '.join(map(str, SCALE_VERSIONS))}.")
    return [_with_scale(run, files, version) for run in runs]


def _with_scale(run: RunRecord, files: Sequence[AnchorFile], version: int) -> RunRecord:
    scale = scale_of(run)
    if scale and scale.version == version:
        return run
    if scale is None:
        chosen = _own_scale(run, files, version)
    else:
        chosen = replace(scale, version=version) if run.task.scale else scales(version).get(run.task.id)
    if chosen is None:
        return run
    attached = ChosenScale(low=chosen.low, high=chosen.high, draws=1, version=version)
    return run.model_copy(update={"task": run.task.model_copy(update={"scale": attached})})


def _own_scale(run: RunRecord, files: Sequence[AnchorFile], version: int) -> Scale | None:
    """Return the scale from the anchors that fit a run: up to the expert that was measured with them, else to the upper
    end of the plain task."""
    anchors = fitting_anchors(files, run)
    if isinstance(anchors, NoAnchors):
        return None
    cases, plain = anchors.heldout_cases, scales(version).get(run.task.id)
    low = lower_end(anchors, cases, version)
    high = anchors.expert.mean(cases) if anchors.expert else plain.high if plain else None
    return Scale(low, high, version) if high is not None and is_scale(low, high) else None


def lower_end(anchors: TaskAnchors, cases: int, version: int = CURRENT_SCALE) -> float:
    """Return the score that counts as 0: that of the random policy, since version 2 that of the best trivial one."""
    return anchors.random.mean(cases) if version == 1 else anchors.best_trivial(cases)


def counted_returns(returns: Matrix, failed: NDArray[np.bool_] | None, scale: Scale) -> Matrix:
    """Return what episodes (runs x cases) count for a normalised score: on a bounded scale a failed one counts as the
    lower end, because its failure return would outweigh all other cases."""
    return returns if failed is None or not scale.is_bounded else np.where(failed, scale.low, returns)


def bounded_runs(returns: Matrix, scale: Scale) -> Matrix:
    """Return counted returns in units of the scale, with the mean of each run moved to its bounded value. Cases keep
    their spread, so that an interval does not shrink at the ends of the scale."""
    normalised = (returns - scale.low) / scale.unit
    bounded = scale.for_aggregates(returns.mean(axis=1, keepdims=True))
    return np.asarray(normalised + (bounded - normalised.mean(axis=1, keepdims=True)))


def counted_runs(scores: Sequence[RunScore], scale: Scale) -> Matrix:
    """Return what the episodes of runs (runs x cases) count for a normalised score."""
    returns = np.array([score.returns for score in scores], dtype=np.float64)
    failed = np.array([score.failed for score in scores], dtype=np.bool_)
    return counted_returns(returns, failed, scale)


def run_scores(scores: Sequence[RunScore], scale: Scale) -> Matrix:
    """Return the score of each run for an aggregate."""
    return scale.for_aggregates(counted_runs(scores, scale).mean(axis=1))


def normalised_score(run: RunRecord) -> float | None:
    """Return the score of one run in units of its scale, without bounds; None if the run or its task has none."""
    scale, score = scale_of(run), run_score(run)
    return None if scale is None or score.missing else scale.normalise(task_score(counted_runs([score], scale)))
