"""Scores of runs and entrants, after the rules of docs/scoring.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.run_record import OutcomeKind, Repeat, RunRecord, RunStatus, turn_worked

Returns = Sequence[float]
Matrix = NDArray[np.float64]
PROVIDER_DOWN: Final = "provider_down"  # a value of ``closed_because`` that is not the agent's fault
UNKNOWN_FAMILY: Final = "unknown"  # of the task of an imported run that no collection of ours has
AGAIN: Final = "to be run again"


@dataclass(frozen=True)
class RunScore:
    """Held-out returns that count for a run, and which episodes failed; or the reason why its score is missing."""

    run: RunRecord
    returns: tuple[float, ...]
    failed: tuple[bool, ...]
    missing: str | None
    flags: tuple[str, ...]


def run_score(run: RunRecord) -> RunScore:
    """Return what a run counts on the leaderboard. A run that selected nothing counts the task's failure return."""
    reason = _missing(run)
    if reason or run.outcome is None:
        return RunScore(run, (), (), reason, ())
    cases, heldout = run.options.heldout_cases, run.outcome.heldout
    if heldout is None:
        return RunScore(run, (run.task.failure_return,) * cases, (True,) * cases, None, tuple(_flags(run)))
    failed = tuple(error is not None for error in heldout.errors) or (False,) * cases  # imported runs may lack errors
    return RunScore(run, tuple(heldout.returns), failed, None, tuple(_flags(run)))


def selected_policies(runs: Iterable[RunRecord]) -> int:
    """Return the number of distinct policies that runs selected."""
    return len({run.outcome.checkpoint if run.outcome else None for run in runs})


def _missing(run: RunRecord) -> str | None:
    """Return why a run has no score, or None. An agent that merely failed has a score."""
    if run.outcome is None:
        return unfinished_reason(run)
    if run.outcome.kind is OutcomeKind.JUDGE_FAULT:
        return f"the judge failed{f' ({run.outcome.cause})' if run.outcome.cause else ''}; {AGAIN}"
    if run.imported and (reason := _missing_in_original(run)):
        return reason
    if run.outcome.kind is OutcomeKind.SCORED:
        played = len(run.outcome.heldout.returns) if run.outcome.heldout else 0
        wanted = run.options.heldout_cases
        return None if played == wanted else f"{played} of {wanted} held-out cases; {AGAIN}"
    if all(submission.refunded for submission in run.submissions):
        if run.submissions:
            return f"the judge failed on every submission; {AGAIN}"
        if _never_worked(run):
            return f"the agent never worked ({run.times.closed_because}); {AGAIN}"
    return None


def _never_worked(run: RunRecord) -> bool:
    """Return whether the agent never did anything. Older records do not say it, but have the turns."""
    if run.outcome and run.outcome.kind is OutcomeKind.NEVER_WORKED:
        return True
    is_down = run.times.closed_because == PROVIDER_DOWN
    is_over_time = run.times.closed_because == "limit_hours"
    return is_down or (
        bool(run.turns) and not is_over_time and not any(turn_worked(turn.failure, turn.usage) for turn in run.turns)
    )


def _missing_in_original(run: RunRecord) -> str | None:
    """Return why an imported run has no score: what the original did not record cannot be played again."""
    outcome = run.outcome
    if outcome and outcome.heldout and not outcome.heldout.returns:
        return f"imported: its held-out mean {outcome.heldout.mean:g} is recorded, but not its returns"
    if outcome and outcome.kind is OutcomeKind.NO_OK_SUBMIT and run.task.family == UNKNOWN_FAMILY:
        return "imported: nothing was selected, and the failure return of its task is not recorded"
    return None


def unfinished_reason(run: RunRecord) -> str:
    """Describe a run without outcome. It is not broken; it may be in progress."""
    status = run.status
    if run.suspended:
        ok = sum(submission.verdict == "ok" for submission in run.submissions)
        scored = f"; `evopolicygym finish` scores its {ok} ok submissions" if ok else ""
        return f"suspended ({run.suspended.reason}): `evopolicygym run --resume` continues it{scored}"
    if status is RunStatus.CLOSED:
        return "closed, but not scored yet (`evopolicygym finish` scores it)"
    return f"{status}: still running, or left unfinished (`evopolicygym finish` scores it as it is)"


def _flags(run: RunRecord) -> Iterable[str]:
    outcome = run.outcome
    assert outcome is not None
    if outcome.kind is OutcomeKind.NO_OK_SUBMIT:
        yield "no ok submit"
    if run.entered:
        yield "entered: made elsewhere, no train episode was played"
    elif outcome.stopped_early:
        yield "stopped early"
    if outcome.repeat is Repeat.NONDETERMINISTIC:
        yield "nondeterministic"


def mean(values: Iterable[float]) -> float:
    """Return the mean, from an exactly rounded sum: independent of order."""
    listed = list(values)
    return math.fsum(listed) / len(listed)


def mean_if_known(values: Iterable[float | None]) -> float | None:
    """Return the mean, or None if there is no value or one of them is None."""
    listed = list(values)
    present = [value for value in listed if value is not None]
    return mean(present) if present and len(present) == len(listed) else None


def task_score(runs: Iterable[Returns] | Matrix) -> float:
    """Return the mean over runs of their held-out means."""
    return mean(mean(map(float, returns)) for returns in runs)


def paper_normalised(scores: Mapping[str, float], random: float) -> dict[str, float | None]:
    """Normalise as the paper does: clipped between the random policy and the best entrant.

    All are None if no entrant beats the random policy.
    """
    best = max(scores.values())
    if best <= random:
        return dict.fromkeys(scores)
    return {name: min(max((score - random) / (best - random), 0.0), 1.0) for name, score in scores.items()}
