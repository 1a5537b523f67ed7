"""A run as text: the table of its submissions, its outcome, and the scores of its checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from evopolicygym.analysis.formatting import format_gain, format_interval, pluralize
from evopolicygym.cli.output import (
    describe_cases,
    name_task,
    print_fields,
    print_json,
    print_table,
    print_text,
    stdout,
)
from evopolicygym.errors import Fault
from evopolicygym.record_types import MAX_RETURN
from evopolicygym.run_record import (
    DEFAULT_CONDITIONS,
    CheckpointRecord,
    OutcomeKind,
    Repeat,
    Result,
    RunRecord,
    SubmissionRecord,
    load,
)

MANY: Final = 24
COLUMNS: Final = ("submit", "episodes", "verdict", "train", "validation", "held-out", "selected")
OPTIONAL: Final = ("episodes", "train")
AGAIN: Final = (
    "The outcome of {run} is judge_fault: it counts as missing. `evopolicygym doctor` names what is broken; repair it "
    "and repeat the run in a new folder."
)
COUNTS: Final = (
    "The judge failed and ended {run} early. Earlier submissions are scored, and the score counts. `evopolicygym "
    "doctor` names what is broken."
)
FAILURES: Final = {
    "provider_down": "its provider failed for too long; a run without a submission counts as missing: repeat it",
    "agent_failed": "its client failed; `evopolicygym agent check NAME` says whether it can run here",
}
NO_SCORE: Final = {
    OutcomeKind.NO_OK_SUBMIT: "no submission could be scored",
    OutcomeKind.NEVER_WORKED: "no turn of the agent succeeded; the run counts as missing: repeat it",
}


def show_outcome(run: Path, json: bool) -> None:
    record = load(run)
    if json:
        print_json(record.model_dump(mode="json"))
        return
    show_table(record)
    print_fields(_lines(record))


def is_without_score(run: Path) -> bool:
    """Whether a run ended without a score because its provider or its client failed."""
    record = load(run)
    if record.outcome is None or record.outcome.kind is OutcomeKind.SCORED:
        return False
    return record.outcome.kind is OutcomeKind.NEVER_WORKED or record.times.closed_because in FAILURES


def check_outcome(run: Path) -> None:
    """Raise Fault if the judge failed, even if the run has a score: its agent could not continue."""
    outcome = load(run).outcome
    if outcome and (outcome.cause or outcome.kind is OutcomeKind.JUDGE_FAULT):
        remedy = COUNTS if outcome.kind is OutcomeKind.SCORED else AGAIN
        raise Fault(f"{outcome.cause or 'the judge refunded too many submissions'}\n{remedy.format(run=run)}")


def show_scores(run: Path, json: bool) -> None:
    record = load(run)
    if json:
        print_json([checkpoint.model_dump(mode="json") for checkpoint in record.checkpoints])
    else:
        show_table(record)


def show_table(record: RunRecord) -> None:
    """Print one line for each submission, with the held-out mean where it was measured (it never selects)."""
    checkpoints = {checkpoint.hash: checkpoint for checkpoint in record.checkpoints}
    shown = _worth_showing(record)
    rows = [_row(record, submission, checkpoints[submission.checkpoint]) for submission in shown]
    print_table(COLUMNS, rows, optional=OPTIONAL)
    if hidden := len(record.submissions) - len(shown):
        print_text(f"  {hidden} more that did not raise the best validation mean; --json shows them all")
    stdout.print()


def _row(record: RunRecord, submission: SubmissionRecord, checkpoint: CheckpointRecord) -> tuple[str, ...]:
    is_selected = record.outcome is not None and record.outcome.submission == submission.number
    return (
        str(submission.number),
        str(len(submission.cases)),
        "refunded" if submission.refunded else submission.verdict or "running",
        *map(_mean, (submission.train, checkpoint.validation, checkpoint.heldout)),
        "yes" if is_selected else "",
    )


def _worth_showing(record: RunRecord) -> list[SubmissionRecord]:
    """Return all submissions if few, else those that raised the best validation mean, failed or were selected."""
    if len(record.submissions) <= MANY:
        return record.submissions
    means = {checkpoint.hash: checkpoint.validation.mean for checkpoint in record.checkpoints if checkpoint.validation}
    selected, best, shown = record.outcome.submission if record.outcome else None, -math.inf, []
    for submission in record.submissions:
        mean = means.get(submission.checkpoint, -math.inf)
        if mean > best or submission.verdict != "ok" or submission.number == selected:
            shown.append(submission)
        best = max(best, mean)
    return shown


def _mean(result: Result | None) -> str:
    return f"{result.mean:.5g}" if result else "-"


def _end(record: RunRecord) -> list[tuple[str, str]]:
    """Return why the run was closed, and the last error of its client if that is the reason."""
    reason = record.times.closed_because
    if reason is None:
        return []
    if reason not in FAILURES:
        return [("closed", reason)]
    failed = [turn for turn in record.turns if turn.failure]
    error = [("its error", f"{failed[-1].failure}: {failed[-1].message}")] if failed else []
    return [("closed", f"{reason}: {FAILURES[reason]}"), *error]


def _lines(record: RunRecord) -> list[tuple[str, str]]:
    budget, outcome, submissions = record.budget, record.outcome, pluralize(len(record.submissions), "submission")
    lines = [
        ("task", f"{name_task(record.task.id, record.task.env_id)}, {describe_cases(record.ids.splits_id)}"),
        ("conditions", record.options.conditions() or DEFAULT_CONDITIONS),
        ("budget", f"{budget.charged} of {pluralize(budget.total, 'episode')} used in {submissions}"),
        ("isolation", f"policy {record.isolation.policy}, agent {record.isolation.agent}"),
        ("ids", f"comparable_id {record.ids.comparable_id}, bit_id {record.ids.bit_id}"),
    ]
    lines += _end(record)
    if outcome is None:
        status = f"suspended ({record.suspended.reason})" if record.suspended else record.status
        return [*lines, ("outcome", f"none yet: the run is {status}")]
    if outcome.stopped_early and not record.entered:
        lines.append(("stopped", f"early, with {pluralize(outcome.budget_left, 'episode')} left"))
    if outcome.kind is OutcomeKind.JUDGE_FAULT:
        lines.append(("outcome", "judge_fault: the judge itself failed; repeat this run"))
    lines += [("cause", outcome.cause)] if outcome.cause else []
    if outcome.heldout is None:
        no_score = [("outcome", f"{outcome.kind}: {NO_SCORE[outcome.kind]}")] if outcome.kind in NO_SCORE else []
        return [*lines, *no_score]
    if outcome.repeat is Repeat.NONDETERMINISTIC:
        lines.append(("repeated", "NOT equal: the policy plays differently each time (does it read a clock?)"))
    cases = pluralize(len(outcome.heldout.returns), "case")
    score = f"{outcome.heldout.mean:.6g} (std {outcome.heldout.std:.4g}, {cases})"
    lines.append(("held-out", f"{score}, submission {outcome.submission}"))
    return [*lines, *_normalised(record), *_worth(record)]


def _normalised(record: RunRecord) -> list[tuple[str, str]]:
    """Return the score of a generated task on the scale that was measured when it was drawn."""
    from evopolicygym.analysis.scales import normalised_score  # numpy takes a while to import

    scale, score = record.task.scale, normalised_score(record) if record.task.scale else None
    if scale is None or score is None:
        return []
    ends = f"0 is the best trivial policy ({scale.low:.6g}), 1 the expert ({scale.high:.6g})"
    return [("normalised", f"{score:.3f}: {ends}")]


def _worth(record: RunRecord) -> list[tuple[str, str]]:
    """Return what the feedback was worth: the first submission against the selected one, on held-out."""
    from evopolicygym.analysis.gain import NOT_MEASURED, run_gain  # scipy takes a while to import
    from evopolicygym.analysis.loading import largest_return
    from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL

    if largest_return(record) > MAX_RETURN:
        return [("feedback", f"what it was worth is unknown: returns above {MAX_RETURN:g} cannot be computed with")]
    if record.entered:
        return []
    comparison = run_gain(record)
    if comparison.unchanged:
        return [("feedback", "was worth nothing: the policy never changed after the first submission")]
    if comparison.heldout is None:
        return [("feedback", f"what it was worth is unknown: {NOT_MEASURED}")]
    gain = comparison.heldout
    if comparison.submission is not None and _is_selected(record, comparison.submission):
        return [("feedback", "was worth nothing: the policy of the first submission was selected")]
    span = gain.gain.interval
    over_cases = f" ({CONFIDENCE_LEVEL:.0%} over cases: {format_interval(span)})" if span else ""
    scores = f"first submission {gain.first:.6g}, selected {gain.selected:.6g}"
    return [("feedback", f"{scores}: feedback was worth {format_gain(gain.gain.value)}{over_cases}")]


def _is_selected(record: RunRecord, number: int) -> bool:
    first = next(submission for submission in record.submissions if submission.number == number)
    return record.outcome is not None and record.outcome.checkpoint == first.checkpoint
