"""`evopolicygym finish`, `score`, `verify`: what is done with a run once its agent is gone."""

from __future__ import annotations

import os
import time
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from evopolicygym.cli.output import print_json, print_notice, progress, stderr, stdout
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

Run = Annotated[Path, typer.Argument(help="Folder of the run.")]
Jobs = Annotated[int, typer.Option(min=1, help="Episodes at a time.")]
Where = Annotated[EngineName | None, typer.Option("--engine", help="This machine or Ray (default: as it was opened).")]
Jail = Annotated[
    IsolationChoice | None,
    typer.Option("--isolation", help="Of policies: auto is the best of A and B; none trusts them."),
]
Named = Annotated[
    str | None,
    typer.Option("--task", help="The run's task, if it is a module or file of your own: trust its code."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
POLL_S: Final = 0.2


def finish(
    run: Run, task: Named = None, jobs: Jobs = CORES, engine: Where = None, isolation: Jail = None, json: AsJson = False
) -> None:
    """Close a run, select a checkpoint on hidden validation, score it on held-out, and print the outcome."""
    waited = 0.0
    while not has_outcome(run):
        try:
            _ask_or_finish(run, task=task and absolute_name(task), jobs=jobs, engine=engine, isolation=isolation)
            _check_has_outcome(run)
        except RunIsOwned:
            if waited == 0.0:
                stderr.print(f"waiting for the process that owns {run}: it starts, ends, or finishes the run itself")
            time.sleep(POLL_S)
            waited += POLL_S
    show_outcome(run, json)
    check_outcome(run)


def score(
    run: Run,
    all_checkpoints: Annotated[
        bool, typer.Option("--all-checkpoints", help="Held-out of every candidate: for analysis, never to select.")
    ] = False,
    task: Named = None,
    jobs: Jobs = CORES,
    engine: Where = None,
    isolation: Jail = None,
    json: AsJson = False,
) -> None:
    """What each candidate scored. With --all-checkpoints those that were not selected are measured, too."""
    state = read_state(run)
    if state.phase is not RunPhase.FINISHED:
        raise UserError(f"{run} has no outcome yet", f"Finish it first: evopolicygym finish {run}")
    missing = {one.charged.checkpoint.hash for one in state.candidates} - set(state.heldout)
    if (all_checkpoints and missing) or not has_outcome(run):
        total = len(missing) * scoring.count(state, Split.HELDOUT)
        given = {"task": task and absolute_name(task), "jobs": jobs, "engine": engine, "isolation": isolation}
        with open_run(run, **given) as owner, progress(total) as advance:
            print_notice(owner.notice)
            if all_checkpoints and missing:
                with hidden_cases_lock(owner.case_set, str(run), "Ctrl-C loses nothing: score it later."):
                    for one in owner.judge.state.candidates:
                        scoring.score(owner.judge, one.charged.checkpoint, advance)
            owner.write_record()
    show_scores(run, json)


def verify(run: Run, task: Named = None, jobs: Jobs = CORES, isolation: Jail = None, json: AsJson = False) -> None:
    """Recompute everything that can be recomputed, and name what does not match. Writes nothing. The policy is played
    in a jail whatever the run's own settings say; only --isolation none plays it without."""
    place = RunPaths(run)
    if not os.path.lexists(place.ledger) and not os.path.lexists(place.record):
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
    """Other returns on another kind of machine are no failure of the run: equal bits are not promised there."""
    if finding.ok:
        return "ok  "
    return "DIFF" if finding.what == "replay" and report.replay is Replay.DIFFERS else "FAIL"


def _check_has_outcome(run: Path) -> None:
    """Raise for a run whose record cannot be read although it was just written: to finish it again would never end."""
    if has_outcome(run):
        return
    try:
        load(run)
    except UserError as error:
        raise UserError(
            f"{run} is finished, but its ledger contradicts itself: no valid record follows from it ({error})",
            "Nothing more can be done with it. `evopolicygym verify` names what does not match; do the run again.",
        ) from error
    raise Fault(f"{run} has no outcome after it was finished")


def _ask_or_finish(run: Path, **given: Any) -> None:
    try:
        _ask_the_owner(run)
    except owner_socket.NoOwner:
        _finish_here(run, given)


def _ask_the_owner(run: Path) -> None:
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
            f"the process that owned {run} died", f"Nothing is lost. Run it again: evopolicygym finish {run}"
        )


def _finish_here(run: Path, given: dict[str, Any]) -> None:
    with open_run(run, **given) as owner:
        print_notice(owner.notice)
        if interrupted := owner.judge.state.running:
            submission.execute(owner.judge, interrupted)
        scoring.close(owner.judge, serve.FINISHED_BY_HAND)
        with progress(scoring.left_to_play(owner.judge.state)) as advance:
            serve.finish_run(owner, advance)
