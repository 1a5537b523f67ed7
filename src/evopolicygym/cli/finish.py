"""`evopolicygym finish`, `score`, `verify`: end, measure and check a run after its agent."""

from __future__ import annotations

import os
import time
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from evopolicygym.cli.options import Json, OwnTask, RunFolder
from evopolicygym.cli.output import print_json, print_notice, progress, stderr, stdout
from evopolicygym.cli.play_options import LocalJobs, OptionalPolicyIsolation
from evopolicygym.cli.run_text import check_outcome, show_outcome, show_scores
from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.slots import check_jobs
from evopolicygym.judge import scoring, submission
from evopolicygym.judge.state import RunPhase
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import load
from evopolicygym.runs import serve
from evopolicygym.runs.locks import RunIsOwned, hidden_cases_lock
from evopolicygym.runs.open_run import open_run
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.run_status import has_outcome, read_state
from evopolicygym.runs.settings import CORES, EngineName, IsolationChoice
from evopolicygym.runs.verify import VerifyCheck, VerifyReport
from evopolicygym.runs.verify import verify as verify_run
from evopolicygym.server import owner_socket
from evopolicygym.tasks.registry import absolute_name
from evopolicygym.tasks.splits import Split

EngineOfRun = Annotated[
    EngineName | None, typer.Option("--engine", help="Where episodes are played (default: as the run was opened).")
]
POLL_S: Final = 0.2


def finish(
    run: RunFolder,
    task: OwnTask = None,
    jobs: LocalJobs = CORES,
    engine: EngineOfRun = None,
    isolation: OptionalPolicyIsolation = None,
    json: Json = False,
) -> None:
    """Close a run, select a checkpoint by hidden validation, measure it on held-out cases, and print the outcome."""
    waited = 0.0
    while not has_outcome(run):
        try:
            _finish(run, task=task and absolute_name(task), jobs=jobs, engine=engine, isolation=isolation)
            _check_has_outcome(run)
        except RunIsOwned:
            if waited == 0.0:
                stderr.print(f"waiting: another process works on {run}")
            time.sleep(POLL_S)
            waited += POLL_S
    show_outcome(run, json)
    check_outcome(run)


def score(
    run: RunFolder,
    all_checkpoints: Annotated[
        bool,
        typer.Option(
            "--all-checkpoints", help="Measure every candidate on held-out cases (for analysis; it never selects)."
        ),
    ] = False,
    task: OwnTask = None,
    jobs: LocalJobs = CORES,
    engine: EngineOfRun = None,
    isolation: OptionalPolicyIsolation = None,
    json: Json = False,
) -> None:
    """Print the scores of each submission; --all-checkpoints also measures candidates that are neither the selected one
    nor the first."""
    state = read_state(run)
    if state.phase is not RunPhase.FINISHED:
        raise UserError(f"{run} has no outcome yet", f"Finish it first: evopolicygym finish {run}")
    missing = scoring.unmeasured(state)
    if (all_checkpoints and missing) or not has_outcome(run):
        total = len(missing) * scoring.count(state, Split.HELDOUT)
        given = {"task": task and absolute_name(task), "jobs": jobs, "engine": engine, "isolation": isolation}
        with open_run(run, **given) as owner, progress(total) as advance:
            print_notice(owner.notice)
            if all_checkpoints and missing:
                with hidden_cases_lock(owner.case_set, str(run), "Ctrl-C loses nothing: score it later."):
                    for checkpoint in missing:
                        scoring.score(owner.judge, checkpoint, advance)
            owner.write_record()
    show_scores(run, json)


def verify(
    run: RunFolder,
    task: OwnTask = None,
    jobs: LocalJobs = CORES,
    isolation: OptionalPolicyIsolation = None,
    json: Json = False,
) -> None:
    """Recompute everything that can be recomputed, and name what does not match. Nothing is written. The policy runs
    isolated whatever the run's own settings say, unless you give --isolation none."""
    paths = RunPaths(run)
    if not os.path.lexists(paths.ledger) and not os.path.lexists(paths.record):
        raise UserError(f"{run} holds no run", "Name the folder of a run: the one with run.json and ledger.jsonl.")
    check_jobs(jobs)
    report = verify_run(run, jobs, isolation or IsolationChoice.AUTO, task and absolute_name(task))
    if json:
        print_json(report.as_dict())
    else:
        for finding in report.findings:
            stdout.print(f"{_mark(finding, report)} {finding.what}: {finding.detail}")
    if not report.ok:
        raise typer.Exit(1)


def _mark(finding: VerifyCheck, report: VerifyReport) -> str:
    """Return DIFF, not FAIL, for other returns on another kind of machine: equal bits are not promised there."""
    if finding.ok:
        return "ok  "
    replays = {"replay": report.replay, "first": report.first_replay}
    return "DIFF" if replays.get(finding.what) is Replay.DIFFERS else "FAIL"


def _check_has_outcome(run: Path) -> None:
    """Raise if the record of a run that was just finished cannot be read: finishing it again would never end."""
    if has_outcome(run):
        return
    try:
        load(run)
    except UserError as error:
        raise UserError(
            f"{run} is finished, but its ledger contradicts itself: no valid record follows from it ({error})",
            "It cannot be repaired. `evopolicygym verify` names what does not match; repeat the run in a new folder.",
        ) from error
    raise Fault(f"{run} has no outcome after it was finished")


def _finish(run: Path, **given: Any) -> None:
    try:
        _ask_owner_to_finish(run)
    except owner_socket.NoOwner:
        _finish_here(run, given)


def _ask_owner_to_finish(run: Path) -> None:
    messages = owner_socket.send_command(run, serve.FINISH_COMMAND)
    first = next(messages, {})
    with progress(first.get("total", 0)) as advance:
        for message in chain([first], messages):
            if "error" in message:
                raise Fault(message["error"])
            if message.get("finished"):
                return
            if waiting := message.get("waiting"):
                stderr.print(waiting)
                continue
            advance()
    if not has_outcome(run):
        raise UserError(
            f"the process that worked on {run} died", f"Nothing is lost. Try again: evopolicygym finish {run}"
        )


def _finish_here(run: Path, given: dict[str, Any]) -> None:
    with open_run(run, **given) as owner:
        print_notice(owner.notice)
        if interrupted := owner.judge.state.running:
            submission.execute(owner.judge, interrupted)
        scoring.close(owner.judge, serve.FINISHED_BY_HAND)
        with progress(scoring.left_to_play(owner.judge.state)) as advance:
            serve.finish_run(owner, advance)
