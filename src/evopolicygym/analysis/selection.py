"""Whether validation picked well: what the winner's validation mean promised, and what the best choice had given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evopolicygym.analysis.scores import mean
from evopolicygym.records.run import Run


@dataclass(frozen=True)
class Selection:
    """``optimism`` is the selected validation mean minus the held-out mean. ``regret`` is the best candidate's
    held-out mean minus the selected one's; null unless all candidates were measured (`score --all-checkpoints`)."""

    candidates: int
    optimism: float
    regret: float | None


def selection(run: Run) -> Selection | None:
    """None when nothing was selected."""
    outcome = run.outcome
    if outcome is None or outcome.heldout is None or outcome.validation_mean is None:
        return None
    candidates = [checkpoint for checkpoint in run.checkpoints if checkpoint.validation is not None]
    measured = [checkpoint.heldout.mean for checkpoint in candidates if checkpoint.heldout is not None]
    complete = len(measured) == len(candidates) and bool(candidates)
    return Selection(
        candidates=len(candidates),
        optimism=outcome.validation_mean - outcome.heldout.mean,
        regret=max(measured) - outcome.heldout.mean if complete else None,
    )


@dataclass(frozen=True)
class Selections:
    """Means over the runs of one entrant on one task. ``regret`` covers the ``measured`` runs that know theirs."""

    runs: int
    candidates: float
    optimism: float
    regret: float | None
    measured: int


def selections(runs: Iterable[Run]) -> Selections | None:
    found = [one for run in runs if (one := selection(run))]
    if not found:
        return None
    regrets = [one.regret for one in found if one.regret is not None]
    return Selections(
        runs=len(found),
        candidates=mean(one.candidates for one in found),
        optimism=mean(one.optimism for one in found),
        regret=mean(regrets) if regrets else None,
        measured=len(regrets),
    )
