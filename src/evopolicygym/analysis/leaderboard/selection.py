"""How well hidden validation selected: its optimism about the winner, how sure the choice was, and its regret against
the best candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.scales import bounds_of
from evopolicygym.analysis.scores import Matrix, mean
from evopolicygym.analysis.stats.estimates import Number, estimate_score
from evopolicygym.reference.return_bounds import Bounds
from evopolicygym.run_record import RunRecord

OK: Final = "ok"
RESAMPLES: Final = 1000
SEED: Final = 20_260_702
MAX_CANDIDATES: Final = 1000  # the last ones; no agent has more


@dataclass(frozen=True)
class Selection:
    """Selection of one run.

    ``optimism`` is the validation mean of the selected checkpoint minus its held-out mean. ``regret`` is the best
    candidate's held-out mean minus the selected one's; None unless all candidates were measured
    (`score --all-checkpoints`). ``choice`` is None with a single candidate, or where returns of cases are not recorded.
    """

    candidates: int
    optimism: float
    regret: float | None
    choice: Choice | None = None


@dataclass(frozen=True)
class Choice:
    """How sure the choice among candidates was, from their validation returns.

    ``optimism``: for each case, the return of the selected checkpoint minus that of the checkpoint which the other
    cases alone would have selected. Its mean is what the selected mean owes to having been selected on these cases.
    ``gap``: for each case, the selected checkpoint minus the second best. ``stability``: share of resampled sets of
    cases that select the same checkpoint.
    """

    optimism: tuple[float, ...]
    gap: tuple[float, ...]
    stability: float


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
        choice=_choice(run),
    )


def _choice(run: RunRecord) -> Choice | None:
    """Return how sure the choice of a run was, if the returns of all candidates are recorded."""
    last = {made.checkpoint: made.number for made in run.submissions if made.verdict == OK}
    results = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    names = sorted((name for name in candidates(run) if name in last), key=last.__getitem__)[-MAX_CANDIDATES:]
    returns = [result.returns for name in names if (result := results[name]) and result.returns]
    if len(names) < 2 or len(returns) < len(names) or len(returns[0]) < 2:
        return None
    return repeat_choice(np.array(returns, dtype=np.float64))


def repeat_choice(table: Matrix) -> Choice:
    """Repeat the selection on subsets of the cases. ``table``: returns of the candidates by case, the last one last."""
    cases = table.shape[1]
    selected = int(_best(table.mean(axis=1)))
    without = (table.sum(axis=1, keepdims=True) - table) / (cases - 1)
    second = int(_best(np.delete(table, selected, axis=0).mean(axis=1)))
    drawn = np.random.default_rng(SEED).multinomial(cases, np.full(cases, 1.0 / cases), size=RESAMPLES)
    # Not a matrix product: that rounds equal rows differently, and ties would no longer go to the later candidate.
    repeated = np.stack([(drawn * returns).sum(axis=1) for returns in table])
    return Choice(
        optimism=tuple((table[selected] - table[_best(without), np.arange(cases)]).tolist()),
        gap=tuple((table[selected] - np.delete(table, selected, axis=0)[second]).tolist()),
        stability=float((_best(repeated) == selected).mean()),
    )


def _best(means: Matrix) -> Any:
    """Return the row with the highest mean, of each column; of equal ones the later."""
    return len(means) - 1 - np.argmax(means[::-1], axis=0)


@dataclass(frozen=True)
class Selections:
    """Means over the runs of one entrant on one task. ``regret`` covers the ``measured`` runs where it is known, the
    fields after it the ``chosen`` runs with several candidates: see `Choice`."""

    runs: int
    candidates: float
    optimism: float
    regret: float | None
    measured: int
    optimism_by_cases: Number | None = None
    gap: Number | None = None
    stability: float | None = None
    chosen: int = 0


def selections(runs: Iterable[RunRecord]) -> Selections | None:
    """Average the selections of several runs; None when none of them selected anything."""
    listed = list(runs)
    selected = [chosen for run in listed if (chosen := selection(run))]
    if not selected:
        return None
    bounds = bounds_of(listed[0]).of_difference
    choices = [chosen.choice for chosen in selected if chosen.choice]
    regrets = [chosen.regret for chosen in selected if chosen.regret is not None]
    return Selections(
        runs=len(selected),
        candidates=mean(chosen.candidates for chosen in selected),
        optimism=mean(chosen.optimism for chosen in selected),
        regret=mean(regrets) if regrets else None,
        measured=len(regrets),
        optimism_by_cases=_number([choice.optimism for choice in choices], bounds),
        gap=_number([choice.gap for choice in choices], bounds),
        stability=mean(choice.stability for choice in choices) if choices else None,
        chosen=len(choices),
    )


def _number(rows: Sequence[Sequence[float]], bounds: Bounds) -> Number | None:
    """Return the mean over runs and cases with its interval, which is None where nothing varied."""
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    estimate = estimate_score(np.array(rows, dtype=np.float64))
    interval = estimate.interval() if estimate.variance else None
    return Number(estimate.value, interval.clipped(bounds) if interval else None)
