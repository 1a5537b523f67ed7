"""`evopolicygym serve`: open a run whose agent is a person or any program that is started separately."""

from __future__ import annotations

import asyncio
import json as json_module
import os
import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from evopolicygym.cli.options import TaskName
from evopolicygym.cli.output import print_notice, stderr, stdout
from evopolicygym.cli.play_options import (
    Feedback,
    MaxCandidates,
    OptionalPolicyIsolation,
    OwnModelsRule,
    SealKey,
    Text,
    VariantChoice,
)
from evopolicygym.cli.run_text import check_outcome, show_outcome
from evopolicygym.judge.judge import Videos
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.instructions import example_cases
from evopolicygym.runs.open_run import OpenRun, open_run
from evopolicygym.runs.options import given_settings
from evopolicygym.runs.serve import serve_run
from evopolicygym.runs.settings import CORES, Seeds, ValidateWhen

HOW_TO: Final = """\
  python {workspace}/submit.py {cases}      submit {workspace}/system for {meaning}
  evopolicygym finish {run}      close the run, select a checkpoint, score it
Ctrl-C stops the server; the same command continues the run."""


def serve(
    task: TaskName,
    run: Annotated[Path, typer.Option(help="Folder of the run; an existing run is continued.")],
    seeds: Annotated[
        Seeds | None, typer.Option(help="Public cases of the paper, or cases sealed by your key (default).")
    ] = None,
    seal_key: SealKey = None,
    budget: Annotated[int | None, typer.Option(help="Train episodes that may be used (default 128).")] = None,
    validation_cases: Annotated[
        int | None, typer.Option(help="Hidden cases that select a checkpoint (default 16).")
    ] = None,
    heldout_cases: Annotated[
        int | None, typer.Option(help="Hidden cases that measure the selected checkpoint (default 32).")
    ] = None,
    validate: Annotated[
        ValidateWhen, typer.Option(hidden=True, help="When to validate; `after` is the only value left.")
    ] = ValidateWhen.AFTER,
    video: Annotated[Videos | None, typer.Option(help="Train episodes to record as video (default none).")] = None,
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
    options = dict(locals())  # by the names of their parameters
    validate.check_new()
    with open_run(run, **given_settings(task, options)) as owner:
        if owner.judge.state.phase is RunPhase.FINISHED:
            stderr.print(f"{run} is finished: it accepts no more submissions")
        else:
            print_notice(owner.notice)
            asyncio.run(_serve(owner, run, json))
    show_outcome(run, json)
    check_outcome(run)


async def _serve(owner: OpenRun, run: Path, json: bool) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, number, run)

    async def wait(url: str) -> str:
        _announce(owner, run, url, json)
        return await asyncio.Future[str]()  # until a `finish` command arrives

    await serve_run(owner, wait)


def _announce(owner: OpenRun, run: Path, url: str, json: bool) -> None:
    state = owner.judge.state
    if json:
        facts = {"run": str(run), "workspace": str(owner.paths.workspace), "api": url, "remaining": state.remaining}
        print(json_module.dumps(facts), flush=True)
        return
    stdout.print(f"run        {run}: {owner.judge.context.task.id}, {state.remaining} of {state.budget} episodes left")
    stdout.print(f"API        {url}")
    stdout.print(f"workspace  {owner.paths.workspace}")
    cases, meaning = example_cases(state.remaining)
    stderr.block(HOW_TO.format(workspace=run / "workspace", run=run, cases=cases, meaning=meaning))


def _stop(number: int, run: Path) -> None:
    """Exit at once: the ledger holds the whole state, and workers die with this process."""
    stderr.print(f"stopped; `evopolicygym serve TASK --run {run}` continues it, `evopolicygym finish {run}` ends it")
    os._exit(128 + number)
