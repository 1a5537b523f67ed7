"""Rows of the tidy tables: plain values, None for what is unknown. docs/python.md explains the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.gain import GAIN_COLUMNS, gain_columns, learning_curve, run_gain
from evopolicygym.analysis.leaderboard.costs import mean_cost
from evopolicygym.analysis.scales import normalised_score, scale_of, with_scales
from evopolicygym.api.results import Run
from evopolicygym.reference import CURRENT_SCALE
from evopolicygym.reference.anchors import AnchorFile
from evopolicygym.run_record import CheckpointRecord, Result

CONDITIONS: Final = ("text", "variant", "own_models", "feedback")
RUN: Final = (
    *("folder", "run", "task", "family", "demand", "entrant", *CONDITIONS, "agent", "model", "seed"),
    *("status", "outcome", "closed_because", "stopped_early", "score", "normalised", "scale", "missing"),
    *("selected_submission", "validation_mean", *GAIN_COLUMNS, "submissions", "budget", "charged"),
    *("isolation_policy", "isolation_agent", "agent_network", "publishable"),
    *("splits_id", "comparable_id", "bit_id", "validation_cases", "heldout_cases", "max_candidates"),
    *("turns", "input_tokens", "cached_tokens", "output_tokens", "cost_usd", "agent_wall_s"),
    *("opened", "closed", "finished", "evopolicygym"),
)
OF_RUN: Final = ("folder", "run", "task", "entrant", *CONDITIONS)
SUBMISSION: Final = (
    *OF_RUN,
    *("submission", "checkpoint", "verdict", "refunded", "selected", "episodes", "charged"),
    *("train_mean", "train_std", "validation_mean", "validation_std", "heldout_mean", "heldout_std"),
    *("clipped_actions", "wall_s", "charged_at", "judged_at"),
)
EPISODE: Final = (*OF_RUN, "split", "submission", "checkpoint", "selected", "case", "return", "length", "error")


def run_row(run: Run, files: Sequence[AnchorFile]) -> dict[str, Any]:
    """Return the row of a run. ``files`` are anchors that a task without a stored scale gets one from."""
    ((record,), score) = with_scales([run.record], files, CURRENT_SCALE), run.score
    agent, outcome, used = record.agent, record.outcome, mean_cost([record])
    scale = scale_of(record)
    return (
        _of_run(run)
        | gain_columns(run_gain(record), learning_curve(record))
        | {
            "family": record.task.family,
            "demand": record.task.demand,
            "agent": run.agent,
            "model": agent.model if agent else None,
            "seed": agent.seed if agent else None,
            "status": run.status,
            "outcome": run.outcome,
            "closed_because": record.times.closed_because,
            "stopped_early": outcome.stopped_early if outcome else None,
            "score": score,
            "normalised": normalised_score(record),
            "scale": scale.version if scale else None,
            "missing": run.missing,
            "selected_submission": outcome.submission if outcome else None,
            "validation_mean": outcome.validation_mean if outcome else None,
            "submissions": len(record.submissions),
            "budget": record.budget.total,
            "charged": record.budget.charged,
            "isolation_policy": record.isolation.policy,
            "isolation_agent": record.isolation.agent,
            "agent_network": record.isolation.agent_network,
            "publishable": record.isolation.publishable,
            "splits_id": record.ids.splits_id,
            "comparable_id": record.ids.comparable_id,
            "bit_id": record.ids.bit_id,
            "validation_cases": record.options.validation_cases,
            "heldout_cases": record.options.heldout_cases,
            "max_candidates": record.options.max_candidates,
            "turns": len(record.turns),
            "input_tokens": used.input_tokens,
            "cached_tokens": used.cached_tokens,
            "output_tokens": used.output_tokens,
            "cost_usd": used.dollars,
            "agent_wall_s": used.wall_s,
            "opened": record.times.opened,
            "closed": record.times.closed,
            "finished": record.times.finished,
            "evopolicygym": record.evopolicygym,
        }
    )


def submission_rows(run: Run) -> Iterator[dict[str, Any]]:
    checkpoints = {checkpoint.hash: checkpoint for checkpoint in run.record.checkpoints}
    selected = run.record.outcome.submission if run.record.outcome else None
    of_run = _of_run(run)
    for submission in run.record.submissions:
        checkpoint = checkpoints[submission.checkpoint]
        yield of_run | {
            "submission": submission.number,
            "checkpoint": submission.checkpoint,
            "verdict": submission.verdict,
            "refunded": submission.refunded,
            "selected": submission.number == selected,
            "episodes": len(submission.cases),
            "charged": submission.charged,
            **_mean_and_std("train", submission.train),
            **_mean_and_std("validation", checkpoint.validation),
            **_mean_and_std("heldout", _heldout(run, checkpoint)),
            "clipped_actions": submission.clipped_actions,
            "wall_s": submission.wall_s,
            "charged_at": submission.charged_at,
            "judged_at": submission.judged_at,
        }


def episode_columns(runs: Iterable[Run]) -> dict[str, list[Any]]:
    """Return the table by columns: a record from elsewhere can hold millions of episodes, too many for a dict each."""
    columns: dict[str, list[Any]] = {name: [] for name in EPISODE}
    for run in runs:
        for block in _episode_blocks(run):
            for name, column in columns.items():
                value = block[name]
                column.extend(value if isinstance(value, list | range) else repeat(value, len(block["return"])))
    return columns


def _episode_blocks(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the train episodes of each submission, then the hidden ones of each checkpoint. Hidden cases are numbered
    from 0; the submission of a checkpoint that was submitted several times is the selected one, else the last."""
    submissions, outcome, of_run = run.record.submissions, run.record.outcome, _of_run(run)
    for submission in submissions:
        if submission.train:
            cases = submission.cases if len(submission.cases) == len(submission.train.returns) else None
            yield of_run | _block(run, "train", submission.number, submission.checkpoint, submission.train, cases)
    numbers = {submission.checkpoint: submission.number for submission in submissions}
    if outcome and outcome.checkpoint and outcome.submission:
        numbers[outcome.checkpoint] = outcome.submission
    for checkpoint in run.record.checkpoints:
        for split, result in (("validation", checkpoint.validation), ("heldout", _heldout(run, checkpoint))):
            if result:
                yield of_run | _block(run, split, numbers.get(checkpoint.hash), checkpoint.hash, result)


def _block(
    run: Run, split: str, submission: int | None, checkpoint: str, result: Result, cases: list[int] | None = None
) -> dict[str, Any]:
    """Return the columns of some episodes: lists have a value for each row, other values hold for every row."""
    outcome = run.record.outcome
    return {
        "split": split,
        "submission": submission,
        "checkpoint": checkpoint,
        "selected": outcome is not None and submission is not None and outcome.submission == submission,
        "case": cases or range(len(result.returns)),
        "return": result.returns,
        "length": result.lengths or None,
        "error": result.errors or None,
    }


def _of_run(run: Run) -> dict[str, Any]:
    """Return the columns that all rows of a run share. Call it once per run: the entrant's text can be long."""
    names = {"folder": str(run.folder), "run": run.id, "task": run.task, "entrant": entrant(run.record)}
    return names | {name: getattr(run.record.options, name) for name in CONDITIONS}


def _heldout(run: Run, checkpoint: CheckpointRecord) -> Result | None:
    outcome = run.record.outcome
    of_outcome = outcome.heldout if outcome and outcome.checkpoint == checkpoint.hash else None
    return checkpoint.heldout or of_outcome


def _mean_and_std(split: str, result: Result | None) -> dict[str, float | None]:
    return {f"{split}_mean": result.mean if result else None, f"{split}_std": result.std if result else None}
