"""Scores of baselines at a run's budget, as they are stored with the package: one row for each run, from its record."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final

from evopolicygym.config import parse_toml, to_toml
from evopolicygym.errors import UserError
from evopolicygym.record_types import Count, RecordModel
from evopolicygym.run_record import RunRecord

FILE: Final = "baselines.toml"
COMMENT: Final = "Written by `python benchmarks/baselines.py page` from the records of runs; do not edit."


class BaselineRun(RecordModel):
    """One finished run. ``candidates``: distinct checkpoints that validation chose among. ``score`` is None if there
    was nothing to score."""

    task: str
    agent: str
    seed: Count
    score: float | None = None
    validation: float | None = None
    budget: Count
    submissions: Count
    candidates: Count
    splits_id: str
    comparable_id: str
    evopolicygym: str


def baseline_run(record: RunRecord) -> BaselineRun:
    """Return the row of a finished run. Raises UserError for one without an outcome or an agent."""
    if record.outcome is None or record.agent is None:
        raise UserError(f"run {record.id} is not finished, or had no agent", "Finish it: `evopolicygym finish RUN`.")
    outcome = record.outcome
    return BaselineRun(
        task=record.task.id,
        agent=record.agent.name,
        seed=record.agent.seed or 0,
        score=outcome.heldout.mean if outcome.heldout else None,
        validation=outcome.validation_mean,
        budget=record.budget.total,
        submissions=len(record.submissions),
        candidates=sum(checkpoint.validation is not None for checkpoint in record.checkpoints),
        splits_id=record.ids.splits_id,
        comparable_id=record.ids.comparable_id,
        evopolicygym=record.evopolicygym,
    )


def dump_baselines(rows: Iterable[BaselineRun]) -> str:
    """Return the rows as TOML, sorted by task, agent and seed."""
    ordered = sorted(rows, key=lambda row: (row.task, row.agent, row.seed))
    return to_toml({"runs": [row.model_dump(exclude_none=True) for row in ordered]}, COMMENT)


@cache
def stored_baselines() -> tuple[BaselineRun, ...]:
    """Return the rows that ship with the package, on the paper's cases."""
    document = parse_toml((resources.files("evopolicygym.reference") / FILE).read_text())
    return tuple(BaselineRun.model_validate(row) for row in document.get("runs", ()))


def scores_of(rows: Iterable[BaselineRun], task: str, agent: str) -> list[float]:
    """Return the scores of an agent on a task, in the order of its seeds."""
    matching = [row for row in rows if (row.task, row.agent) == (task, agent)]
    return [row.score for row in sorted(matching, key=lambda row: row.seed) if row.score is not None]


def mean_and_deviation(scores: list[float]) -> tuple[float, float] | None:
    """Return the mean and the standard deviation over seeds (0 for a single one); None without scores."""
    if not scores:
        return None
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0
