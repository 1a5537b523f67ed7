"""How well hidden validation selected: its optimism about the winner, and its regret against the best candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evopolicygym.analysis.scores import mean
from evopolicygym.run_record import RunRecord

OK: Final = "ok"


@dataclass(frozen=True)
class Selection:
    """Selection of one run.

    ``optimism`` is the validation mean of the selected checkpoint minus its held-out mean. ``regret`` is the best
    candidate's held-out mean minus the selected one's; None unless all candidates were measured
    (`score --all-checkpoints`).
    """

    candidates: int
    optimism: float
    regret: float | None


def candidates(run: RunRecord) -> list[str]:
    """Return the distinct checkpoints that hidden validation chose among.

    Selection is optimistic: more candidates give a higher validation mean. Under ``max_candidates``, checkpoints that
    were validated in idle time and then superseded are not candidates.
    """
    validated = [checkpoint.hash for checkpoint in run.checkpoints if checkpoint.validation is not None]
    if run.options.max_candidates is None:
        return validated
    accepted = (submission.checkpoint for submission in reversed(run.submissions) if submission.verdict == OK)
    return list(dict.fromkeys(accepted))[: run.options.max_candidates]


def mean_candidates(runs: Sequence[RunRecord]) -> float | None:
    """Return the mean number of candidates over the runs of one entrant; None without runs."""
    return mean(len(candidates(run)) for run in runs) if runs else None


def selection(run: RunRecord) -> Selection | None:
    """Return how well validation selected in a run; None when nothing was selected."""
    outcome = run.outcome
    if outcome is None or outcome.heldout is None or outcome.validation_mean is None:
        return None
    hashes = set(candidates(run))
    measured = [
        checkpoint.heldout.mean
        for checkpoint in run.checkpoints
        if checkpoint.hash in hashes and checkpoint.heldout is not None
    ]
    complete = len(measured) == len(hashes) and bool(hashes)
    return Selection(
        candidates=len(hashes),
        optimism=outcome.validation_mean - outcome.heldout.mean,
        regret=max(measured) - outcome.heldout.mean if complete else None,
    )


@dataclass(frozen=True)
class Selections:
    """Means over the runs of one entrant on one task. ``regret`` covers the ``measured`` runs where it is known."""

    runs: int
    candidates: float
    optimism: float
    regret: float | None
    measured: int


def selections(runs: Iterable[RunRecord]) -> Selections | None:
    """Average the selections of several runs; None when none of them selected anything."""
    selected = [chosen for run in runs if (chosen := selection(run))]
    if not selected:
        return None
    regrets = [chosen.regret for chosen in selected if chosen.regret is not None]
    return Selections(
        runs=len(selected),
        candidates=mean(chosen.candidates for chosen in selected),
        optimism=mean(chosen.optimism for chosen in selected),
        regret=mean(regrets) if regrets else None,
        measured=len(regrets),
    )
