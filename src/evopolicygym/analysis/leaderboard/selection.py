"""Whether validation picked well: what the winner's validation mean promised, and what the best choice had given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evopolicygym.analysis.scores import mean
from evopolicygym.run_record import RunRecord

OK: Final = "ok"


@dataclass(frozen=True)
class Selection:
    """``optimism`` is the selected validation mean minus the held-out mean. ``regret`` is the best candidate's
    held-out mean minus the selected one's; null unless all candidates were measured (`score --all-checkpoints`)."""

    candidates: int
    optimism: float
    regret: float | None


def candidates(run: RunRecord) -> list[str]:
    """Distinct checkpoints that hidden validation chose among. It is an optimiser: among more it finds more.
    Under a limit, what was validated in idle time and then superseded is none of them."""
    validated = [checkpoint.hash for checkpoint in run.checkpoints if checkpoint.validation is not None]
    if run.options.max_candidates is None:
        return validated
    accepted = (submission.checkpoint for submission in reversed(run.submissions) if submission.verdict == OK)
    return list(dict.fromkeys(accepted))[: run.options.max_candidates]


def mean_candidates(runs: Sequence[RunRecord]) -> float | None:
    """Over the runs of one entrant. None where there are none, as for a policy that no agent submitted."""
    return mean(len(candidates(run)) for run in runs) if runs else None


def selection(run: RunRecord) -> Selection | None:
    """None when nothing was selected."""
    outcome = run.outcome
    if outcome is None or outcome.heldout is None or outcome.validation_mean is None:
        return None
    chosen_among = set(candidates(run))
    measured = [one.heldout.mean for one in run.checkpoints if one.hash in chosen_among and one.heldout is not None]
    complete = len(measured) == len(chosen_among) and bool(chosen_among)
    return Selection(
        candidates=len(chosen_among),
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


def selections(runs: Iterable[RunRecord]) -> Selections | None:
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
