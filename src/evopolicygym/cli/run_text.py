"""How an outcome is shown."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.text import Text

from evopolicygym.cli.numbers import counted
from evopolicygym.cli.output import one_line, print_json, stderr, stdout
from evopolicygym.errors import Fault
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_record import OutcomeKind, Repeat, Result, RunRecord, SubmissionRecord, load

MANY: Final = 24
AGAIN: Final = (
    "The outcome of {run} is judge_fault: it counts as missing. `evopolicygym doctor` names what is broken; mend it "
    "and do the run again in a new folder."
)
COUNTS: Final = (
    "The judge failed and ended {run} early. What was submitted before is scored, and counts. `evopolicygym doctor` "
    "names what is broken."
)
TROUBLE: Final = {
    "provider_down": "its provider was in trouble for too long; a run without a submission is missing: do it again",
    "agent_failed": "its client failed; `evopolicygym agent check` says whether it can play here",
}


def show_outcome(run: Path, json: bool) -> None:
    record = load(run)
    if json:
        print_json(record.model_dump(mode="json"))
        return
    show_table(record)
    for name, value in _lines(record):
        stdout.print(f"{name:12} {value}")


def is_without_score(run: Path) -> bool:
    """Nothing was measured, and it was not the agent who wanted it so."""
    record = load(run)
    is_scored = record.outcome is not None and record.outcome.kind is OutcomeKind.SCORED
    return not is_scored and record.times.closed_because in TROUBLE


def check_outcome(run: Path) -> None:
    """Raise Fault for a run that the judge failed, also where it has a score: its agent could not go on."""
    outcome = load(run).outcome
    if outcome and (outcome.cause or outcome.kind is OutcomeKind.JUDGE_FAULT):
        remedy = COUNTS if outcome.kind is OutcomeKind.SCORED else AGAIN
        raise Fault(f"{outcome.cause or 'it refunded too many submissions'}\n{remedy.format(run=run)}")


def show_scores(run: Path, json: bool) -> None:
    record = load(run)
    if json:
        print_json([checkpoint.model_dump(mode="json") for checkpoint in record.checkpoints])
    else:
        show_table(record)


def show_table(record: RunRecord) -> None:
    """One line for each submission; held-out where it was measured, which never selects."""
    checkpoints = {checkpoint.hash: checkpoint for checkpoint in record.checkpoints}
    stdout.print(f"{'submit':>6} {'episodes':>8}  {'verdict':14} {'train':>11} {'validation':>11} {'held-out':>11}")
    shown = _worth_showing(record)
    for one in shown:
        known = checkpoints[one.checkpoint]
        verdict = "refunded" if one.refunded else one.verdict or "running"
        means = " ".join(_mean(result) for result in (one.train, known.validation, known.heldout))
        chosen = "  selected" if record.outcome and record.outcome.submission == one.number else ""
        stdout.print(f"{one.number:6} {len(one.cases):8}  {verdict:14} {means}{chosen}")
    if hidden := len(record.submissions) - len(shown):
        stdout.print(f"       {hidden} more that did not raise the best validation mean; --json shows them all")
    stdout.print()


def _worth_showing(record: RunRecord) -> list[SubmissionRecord]:
    """All of a few; of many those that raised the best validation mean, that failed, or that were selected."""
    if len(record.submissions) <= MANY:
        return record.submissions
    means = {one.hash: one.validation.mean for one in record.checkpoints if one.validation}
    selected, best, shown = record.outcome.submission if record.outcome else None, -math.inf, []
    for one in record.submissions:
        mean = means.get(one.checkpoint, -math.inf)
        if mean > best or one.verdict != "ok" or one.number == selected:
            shown.append(one)
        best = max(best, mean)
    return shown


def _mean(result: Result | None) -> str:
    return f"{result.mean:11.5g}" if result else f"{'-':>11}"


def _end(record: RunRecord) -> list[tuple[str, str]]:
    """Why it was closed; and what failed, where that is why."""
    reason = record.times.closed_because
    if reason is None:
        return []
    if reason not in TROUBLE:
        return [("closed", reason)]
    failed = [turn for turn in record.turns if turn.failure]
    said = [("it said", f"{failed[-1].failure}: {failed[-1].message}")] if failed else []
    return [("closed", f"{reason}: {TROUBLE[reason]}"), *said]


def _lines(record: RunRecord) -> list[tuple[str, str]]:
    budget, outcome, submissions = record.budget, record.outcome, counted(len(record.submissions), "submission")
    lines = [
        ("task", f"{record.task.id} ({record.task.env_id}), cases of {record.ids.splits_id[:23]}"),
        ("budget", f"{budget.charged} of {counted(budget.total, 'episode')} used in {submissions}"),
        ("isolation", f"policy {record.isolation.policy}, agent {record.isolation.agent}"),
        ("ids", f"{record.ids.comparable_id} {record.ids.bit_id}"),
    ]
    lines += _end(record)
    if outcome is None:
        return [*lines, ("outcome", f"none yet: the run is {record.status}")]
    if outcome.stopped_early:
        lines.append(("stopped", f"early, with {counted(outcome.budget_left, 'episode')} left"))
    if outcome.kind is OutcomeKind.JUDGE_FAULT:
        lines.append(("outcome", "judge_fault: the judge itself failed; this run is to be done again"))
    lines += [("cause", outcome.cause)] if outcome.cause else []
    if outcome.heldout is None:
        no_score = [("outcome", "no_ok_submit: no submission could be scored")]
        return [*lines, *(no_score if outcome.kind is OutcomeKind.NO_OK_SUBMIT else [])]
    if outcome.repeat is Repeat.NONDETERMINISTIC:
        lines.append(("repeated", "NOT equal: the policy plays differently each time (does it read a clock?)"))
    cases = counted(len(outcome.heldout.returns), "case")
    score = f"{outcome.heldout.mean:.6g} (std {outcome.heldout.std:.4g}, {cases})"
    return [*lines, ("held-out", f"{score}, submission {outcome.submission}")]


BAR: Final = 24
REFRESH_S: Final = 0.25


@contextmanager
def watching(look: Callable[[], RunState]) -> Iterator[None]:
    """``look`` gives the state of the run as of now."""
    done = threading.Event()
    show = _live if stderr.is_terminal else _plain
    thread = threading.Thread(target=show, args=(look, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def line(state: RunState) -> str:
    """Budget spent, best so far, phase."""
    filled = BAR * state.charged // max(1, state.budget)
    means = [one.judged.tally.mean for one in state.submissions.values() if one.judged and one.judged.tally]
    best = f"best train mean {max(means):.5g}" if means else "nothing scored yet"
    bar = "█" * filled + "░" * (BAR - filled)
    submissions = counted(len(state.submissions), "submission")
    return f"{bar} {state.charged}/{state.budget} episodes, {submissions}, {best}, {_phase(state)}"


def _phase(state: RunState) -> str:
    if state.phase is RunPhase.OPEN:
        return f"{state.running.name} is running" if state.running else _turn(state)
    if state.phase is RunPhase.CLOSED:
        distinct = {one.charged.checkpoint.hash for one in state.candidates}
        return f"validating: {len(state.validation)} of {len(distinct)} checkpoints"
    return "measuring on held-out" if state.phase is RunPhase.SELECTED else "finished"


def _turn(state: RunState) -> str:
    trouble = state.turns[-1].failure if state.turns else None
    return f"turn {len(state.turns) + 1}{f' (the last one failed: {trouble})' if trouble else ''}"


def _live(look: Callable[[], RunState], done: threading.Event) -> None:
    with stderr.status("") as status:
        while not done.wait(REFRESH_S):
            status.update(Text(one_line(line(look()))))  # not markup


def _plain(look: Callable[[], RunState], done: threading.Event) -> None:
    told = ""
    while not done.wait(REFRESH_S):
        state = look()
        if (step := _step(state)) != told:
            stderr.print(line(state))
            told = step


def _step(state: RunState) -> str:
    """What is told once. A turn that is written down when the run is closed already is no news."""
    if state.phase is not RunPhase.OPEN:
        return state.phase
    return f"{10 * state.charged // max(1, state.budget)} {_turn(state)}"
