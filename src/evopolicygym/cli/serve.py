"""`evopolicygym serve`: open a run whose agent is a person or any program that is started separately."""

from __future__ import annotations

import json as json_module
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from evopolicygym.api import serve as api
from evopolicygym.cli.options import TaskName
from evopolicygym.cli.output import print_hint, stderr, stdout
from evopolicygym.cli.play_options import (
    Budget,
    EntrantName,
    Feedback,
    HeldoutCases,
    MaxCandidates,
    OptionalPolicyIsolation,
    OwnModelsRule,
    SealKey,
    Text,
    ValidationCases,
    VariantChoice,
    VideoChoice,
)
from evopolicygym.cli.progress import end_live_text, run_progress_status, show_progress
from evopolicygym.cli.text.run import check_outcome, show_outcome
from evopolicygym.runs.instructions import example_cases
from evopolicygym.runs.options import RUN_OPTIONS
from evopolicygym.runs.settings import CORES, Seeds, ValidateWhen

HOW_TO: Final = """\
  python {workspace}/submit.py {cases}
    submits {workspace}/system for {meaning}
  evopolicygym finish {run}
    closes the run, selects a checkpoint, scores it
Ctrl-C stops the server; the same command continues the run."""


def serve(
    task: TaskName,
    run: Annotated[Path, typer.Option(help="Folder of the run; an existing run is continued.")],
    name: EntrantName = None,
    seeds: Annotated[
        Seeds | None,
        typer.Option(help="Source of the cases: sealed by your secret key (default), or the paper's public ones."),
    ] = None,
    seal_key: SealKey = None,
    budget: Budget = None,
    validation_cases: ValidationCases = None,
    heldout_cases: HeldoutCases = None,
    validate: Annotated[
        ValidateWhen, typer.Option(hidden=True, help="When to validate; `after` is the only value left.")
    ] = ValidateWhen.AFTER,
    video: VideoChoice = None,
    stock: Annotated[
        bool | None, typer.Option("--stock", help="Play stock environments instead of the bit-exact fast ones.")
    ] = None,
    max_candidates: MaxCandidates = None,
    text: Text = None,
    variant: VariantChoice = None,
    own_models: OwnModelsRule = None,
    feedback: Feedback = None,
    isolation: OptionalPolicyIsolation = None,
    jobs: Annotated[int | None, typer.Option(min=1, help=f"Episodes played in parallel (default {CORES}).")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines: the API's address, then the outcome.")
    ] = False,
) -> None:
    """Open a run without an agent, and accept submissions until `evopolicygym finish` ends it."""
    options = {name: value for name, value in locals().items() if name in RUN_OPTIONS}
    validate.check_new()
    try:
        with api.serve(task, run, **options, notice=print_hint) as served:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: _stop(number, run))
            _announce(served, json)
            with show_progress(lambda: run_progress_status(served.progress)):
                served.wait()
    except api.RunIsFinished as finished:
        print_hint(finished.message)
    show_outcome(run, json)
    check_outcome(run)


def _announce(served: api.ServedRun, json: bool) -> None:
    run, workspace, remaining = served.folder, served.workspace, served.remaining
    if json:
        facts = {"run": str(run), "workspace": str(workspace.path), "api": served.api, "remaining": remaining}
        print(json_module.dumps(facts), flush=True)
        return
    stdout.print(f"run        {run}: {served.task}, {remaining} of {workspace.budget} episodes left")
    stdout.print(f"API        {served.api}")
    stdout.print(f"workspace  {workspace.path}")
    cases, meaning = example_cases(remaining)
    stderr.block(HOW_TO.format(workspace=run / "workspace", run=run, cases=cases, meaning=meaning))


def _stop(number: int, run: Path) -> None:
    """Exit at once: the ledger holds the whole state, and workers die with this process."""
    end_live_text()
    with suppress(RuntimeError):  # the signal came while something was printed
        print_hint(f"stopped; `evopolicygym serve TASK --run {run}` continues it, `evopolicygym finish {run}` ends it")
    os._exit(128 + number)
