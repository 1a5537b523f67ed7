"""`evopolicygym finish`, `score`, `verify`: what is done with a run once its agent is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.outcome import show_outcome, show_scores
from evopolicygym.cli.output import data, print_json, progress, tame
from evopolicygym.errors import Fault, UserError
from evopolicygym.judge import hidden, submission
from evopolicygym.judge.state import Phase
from evopolicygym.runs import service
from evopolicygym.runs.look import look
from evopolicygym.runs.ownership import own
from evopolicygym.runs.settings import CORES
from evopolicygym.server import control
from evopolicygym.tasks.splits import Split

Run = Annotated[Path, typer.Argument(help="Folder of the run.")]
Jobs = Annotated[int, typer.Option(min=1, help="Episodes at a time.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def finish(run: Run, jobs: Jobs = CORES, json: AsJson = False) -> None:
    """Close a run, select a checkpoint on hidden validation, score it on held-out, and print the outcome."""
    if look(run).phase is not Phase.FINISHED:
        try:
            _ask_the_owner(run)
        except control.NoOwner:
            _finish_here(run, jobs)
    show_outcome(run, json)


def score(
    run: Run,
    all_checkpoints: Annotated[
        bool, typer.Option("--all-checkpoints", help="Held-out of every candidate: for analysis, never to select.")
    ] = False,
    jobs: Jobs = CORES,
    json: AsJson = False,
) -> None:
    """What each candidate scored. With --all-checkpoints those that were not selected are measured, too."""
    state = look(run)
    if state.phase is not Phase.FINISHED:
        raise UserError(f"{run} has no outcome yet", f"Finish it first: evopolicygym finish {run}")
    missing = {one.charged.checkpoint.hash for one in state.candidates} - set(state.heldout)
    if all_checkpoints and missing:
        with own(run, jobs=jobs) as owner, progress(len(missing) * hidden.count(state, Split.HELDOUT)) as advance:
            for one in owner.judge.state.candidates:
                hidden.score(owner.judge, one.charged.checkpoint, advance)
            owner.write_record()
    show_scores(run, json)


def verify(run: Run, jobs: Jobs = CORES, json: AsJson = False) -> None:
    """Recompute everything that can be recomputed, and name what does not match. Writes nothing."""
    from evopolicygym.runs.verification import verify as verify_run

    report = verify_run(run, jobs)
    if json:
        print_json(report.as_dict())
    else:
        for finding in report.findings:
            data.print(f"{'ok  ' if finding.ok else 'FAIL'} {finding.what}: {tame(finding.detail)}", markup=False)
    if not report.ok:
        raise typer.Exit(1)


def _ask_the_owner(run: Path) -> None:
    messages = control.ask(run, service.FINISH)
    first = next(messages, {})
    with progress(first.get("total", 0)) as advance:
        for message in (first, *messages):
            if "error" in message:
                raise Fault(message["error"])
            if message.get("finished"):
                return
            advance()
    raise UserError(f"the process that owned {run} died", f"Nothing is lost. Run it again: evopolicygym finish {run}")


def _finish_here(run: Path, jobs: int) -> None:
    with own(run, jobs=jobs) as owner:
        if interrupted := owner.judge.state.running:
            submission.execute(owner.judge, interrupted)
        hidden.close(owner.judge, service.BY_HAND)
        with progress(hidden.left_to_play(owner.judge.state)) as advance:
            service.finish(owner, advance)
