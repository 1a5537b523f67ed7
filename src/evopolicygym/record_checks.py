"""Checks of a run record against itself. Run folders come from anywhere: a record that cannot be true is left out."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # the record's module imports this one
    from evopolicygym.run_record import Result, RunRecord, TaskScale

MOST_EPISODES: Final = 1_000_000  # of all submissions, ten times the largest budget: refunded ones are played again
MOST_CASES: Final = {"validation_cases": 64, "heldout_cases": 256}  # what the splits of a task hold


LEVELS: Final = ("A", "B", "none")
ABSENT: Final = "absent"  # level of the agent of a policy that was entered
ENTERED: Final = "policy_entered"  # why such a run was closed
GENERATED: Final = "novel/"  # ids of generated tasks
VARIANT_HASHES: Final = {"plain": (), "disguised": ("key", "disguise"), "shifted": ("key", "shift")}
SMALLEST_SCALE: Final = 1e-9  # of a scale, as a share of its ends
LARGEST_SCALE: Final = 1e60  # of its ends
GRANTED: Final = ("hosts", "shown")  # lists in the settings of an agent
CONDITIONS: Final = {"text": "full", "own_models": "allowed", "feedback": "trajectory"}  # of old records, left unsaid


def contradiction(run: RunRecord) -> str | None:
    """Return what is inconsistent in a record, in words; readers rely on the rest."""
    if run.status == "finished" and run.outcome is None:
        return "it is finished, but has no outcome"
    numbers = [submission.number for submission in run.submissions]
    if numbers != sorted(set(numbers)):
        return "its submissions are out of order"
    hashes = {checkpoint.hash for checkpoint in run.checkpoints}
    for submission in run.submissions:
        if submission.checkpoint not in hashes:
            return f"submission {submission.number} names a checkpoint that is not recorded"
    counts = [turn.submissions for turn in run.turns]
    if counts != sorted(counts) or (counts and counts[-1] > len(numbers)):
        return "its turns count other submissions than there are"
    if run.imported and (run.isolation.publishable or "imported" not in run.ids.fingerprint):
        return "it is imported, but is marked as a run of this judge"
    checks = (
        _wrong_form,
        _wrong_isolation,
        _wrong_entry,
        _wrong_budget,
        _wrong_ids,
        _wrong_results,
        _wrong_hidden,
        _wrong_outcome,
    )
    return next((problem for check in checks if (problem := check(run))), None)


def _wrong_form(run: RunRecord) -> str | None:
    """Check the form of undeclared facts that readers open."""
    if not isinstance(run.ids.fingerprint.get("packages") or {}, dict):
        return "the packages in its fingerprint are no table"
    settings = run.agent.settings if run.agent else {}
    for name in GRANTED:
        if not isinstance(settings.get(name) or [], list):
            return f"{name} in the settings of its agent is no list"
    return None


def _wrong_isolation(run: RunRecord) -> str | None:
    isolation = run.isolation
    if isolation.policy not in LEVELS or isolation.agent not in (*LEVELS, ABSENT):
        return "its isolation is none of the known levels"
    if isolation.publishable and "none" in (isolation.policy, isolation.agent):
        return "it is publishable, but was played without isolation"
    return None


def _wrong_entry(run: RunRecord) -> str | None:
    """Check that a policy that was entered had no agent and no train episodes, and that nothing else has the level of
    an agent that is absent."""
    marks = (run.entered, run.isolation.agent == ABSENT)
    if any(marks) != all(marks):
        return "it was either entered or had an agent to isolate, but its isolation says otherwise"
    if run.entered and (run.agent or run.turns or run.budget.charged or len(run.submissions) > 1):
        return "its policy was entered, but an agent, train episodes or further submissions are recorded"
    if run.times.closed_because not in (None, ENTERED) if run.entered else run.times.closed_because == ENTERED:
        return "it was entered, but closed for another reason, or the reverse"
    return None


def _wrong_budget(run: RunRecord) -> str | None:
    """Check that no episodes are hidden."""
    budget = run.budget
    if budget.charged < sum(made.charged for made in run.submissions if not made.refunded):
        return "its submissions were charged more than its budget says"
    if sum(len(made.cases) for made in run.submissions) > MOST_EPISODES:
        return f"its submissions play more than {MOST_EPISODES} episodes"
    if budget.charged + budget.remaining != budget.total:
        return "its budget is not the sum of what was charged and what is left"
    return None


def fingerprint_id(prefix: str, facts: dict[str, Any]) -> str:
    """Return the id of a fingerprint. A change of any fact changes it."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _wrong_ids(run: RunRecord) -> str | None:
    """Check the comparable_id and the facts behind it: runs with one id share tables, so their cases must agree."""
    facts = run.ids.fingerprint
    if fingerprint_id("c", facts) != run.ids.comparable_id:
        return "its comparable_id is not that of the recorded fingerprint"
    cases = {"validation_cases": run.options.validation_cases, "heldout_cases": run.options.heldout_cases}
    for name, value in cases.items():
        if not 1 <= value <= MOST_CASES[name]:
            return f"{name} is {value}, but must be 1 to {MOST_CASES[name]}"
        if facts.get(name) != value:
            return f"{name} is not the number in its fingerprint"
    recorded = {"task": run.task.id, "splits": run.ids.splits_id, "budget": run.budget.total}
    for name, default in CONDITIONS.items():
        if facts.get(name, default) != getattr(run.options, name):
            return f"{name} is not the one in its fingerprint"
    if problem := _wrong_conditions(run) or _wrong_scale(run):
        return problem
    recorded |= {"horizon": run.task.horizon, "failure_return": run.task.failure_return}
    different = [name for name, value in recorded.items() if facts.get(name, value) != value]
    return f"{different[0]} is not the one in its fingerprint" if different else None


def _wrong_conditions(run: RunRecord) -> str | None:
    """Check the variant and its hashes, and that no judge would have refused the conditions."""
    options, variant = run.options, run.ids.fingerprint.get("variant", {"name": "plain"})
    if not isinstance(variant, dict) or variant.get("name") != options.variant:
        return "variant is not the one in its fingerprint"
    for name in VARIANT_HASHES[options.variant]:
        if not (isinstance(value := variant.get(name), str) and value):
            return f"its variant is {options.variant}, but its fingerprint has no {name} of it"
    if options.variant == "disguised" and options.text != "blind":
        return f"its task is disguised, but its text is {options.text}, not blind"
    if options.text == "blind" and options.feedback == "video":
        return "its text is blind, but its feedback is video, which shows the task"
    return None


def _wrong_scale(run: RunRecord) -> str | None:
    """Check the scale of a generated task: scores are normalised by it. Only generated tasks have one."""
    scale, facts = run.task.scale, run.ids.fingerprint
    is_generated = run.task.id.startswith(GENERATED)
    if bool(scale) != is_generated or bool(facts.get("world")) != is_generated:
        return "a generated task, its hash and its scale go together, but it does not have all or none of them"
    if scale and facts.get("env_options") != _drawn(scale):
        return "scale is not the one in its fingerprint"
    if scale and not is_scale(scale.low, scale.high):
        return f"its scale cannot be computed with: {scale.low} to {scale.high}"
    return None


def is_scale(low: float, high: float) -> bool:
    """Return whether scores can be normalised by these ends: a normalised score must be a number, and its powers."""
    size = max(1.0, abs(low), abs(high))
    return size <= LARGEST_SCALE and high - low >= SMALLEST_SCALE * size


def _drawn(scale: TaskScale) -> dict[str, Any]:
    return {"draw": scale.draws - 1, "low": scale.low, "high": scale.high}


def _wrong_results(run: RunRecord) -> str | None:
    """Check that every result has the right number of episodes, and a mean and deviation that follow from them."""
    validation, heldout = run.options.validation_cases, run.options.heldout_cases
    results = [(submission.train, len(submission.cases)) for submission in run.submissions]
    results += [(checkpoint.validation, validation) for checkpoint in run.checkpoints]
    results += [(checkpoint.heldout, heldout) for checkpoint in run.checkpoints]
    for result, cases in (*results, (run.outcome.heldout if run.outcome else None, heldout)):
        if result and not _has_all_cases(result, cases, may_be_empty=run.imported is not None):
            return "a result does not have one return, length and error for each case"
        if result and result.returns and not _is_summary(result):
            return "a mean or a standard deviation does not follow from the returns"
    return None


def _has_all_cases(result: Result, cases: int, may_be_empty: bool) -> bool:
    lengths = [len(values) for values in (result.returns, result.lengths, result.errors)]
    return cases > 0 and all(length == cases or (may_be_empty and length == 0) for length in lengths)


def _wrong_hidden(run: RunRecord) -> str | None:
    """Check that only checkpoints of ``ok`` submissions have hidden results: the first of them and the selected one are
    compared."""
    accepted = {submission.checkpoint for submission in run.submissions if submission.verdict == "ok"}
    for checkpoint in run.checkpoints:
        if (checkpoint.validation or checkpoint.heldout) and checkpoint.hash not in accepted:
            return f"checkpoint {checkpoint.hash[:12]} has a hidden result, but no submission of it was ok"
    return None


def _is_summary(result: Result) -> bool:
    largest = max(map(abs, result.returns))
    if largest > 1e150:  # its square is no number; readers that compute with returns refuse it
        return True
    mean = math.fsum(result.returns) / len(result.returns)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in result.returns) / len(result.returns))
    tolerance = 1e-6 * largest
    return abs(result.mean - mean) <= tolerance and abs(result.std - std) <= tolerance


def _wrong_outcome(run: RunRecord) -> str | None:
    """Check that the outcome is that of its submission and checkpoint; without a score it has neither."""
    if (outcome := run.outcome) is None:
        return None
    winner: tuple[object, ...] = (outcome.submission, outcome.checkpoint, outcome.heldout)
    winner = winner if run.imported else (*winner, outcome.validation_mean)
    if outcome.kind != "scored":
        return "its outcome is no score, but names one" if any(part is not None for part in winner) else None
    if any(part is None for part in winner):
        return "its outcome is a score, but lacks a part of it"
    recorded = {(submission.number, submission.checkpoint) for submission in run.submissions}
    if (outcome.submission, outcome.checkpoint) not in recorded:
        return "its outcome names a submission or a checkpoint that is not recorded"
    chosen = next(checkpoint for checkpoint in run.checkpoints if checkpoint.hash == outcome.checkpoint)
    validation_mean = chosen.validation.mean if chosen.validation else None
    if validation_mean != outcome.validation_mean:
        return "its validation_mean is not that of the selected checkpoint"
    if chosen.heldout not in (None, outcome.heldout):
        return "the held-out result of its outcome is not that of the selected checkpoint"
    return None
