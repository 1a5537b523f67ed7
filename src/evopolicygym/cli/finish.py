"""`evopolicygym finish`, `score`, `verify`: end, measure and check a run after its agent."""

from __future__ import annotations

from typing import Annotated

import typer

from evopolicygym.api import finish as api
from evopolicygym.cli.options import Json, OwnTask, RunFolder
from evopolicygym.cli.output import print_json, stderr, stdout
from evopolicygym.cli.play_options import LocalJobs, OptionalPolicyIsolation, PolicyIsolation
from evopolicygym.cli.progress import hidden_progress
from evopolicygym.cli.text.run import check_outcome, show_outcome, show_scores
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.settings import CORES, EngineName, IsolationChoice
from evopolicygym.runs.verify import Verification, VerifyCheck

EngineOfRun = Annotated[
    EngineName | None, typer.Option("--engine", help="Where episodes are played (default: as the run was opened).")
]


def finish(
    run: RunFolder,
    task: OwnTask = None,
    jobs: LocalJobs = CORES,
    engine: EngineOfRun = None,
    isolation: OptionalPolicyIsolation = None,
    json: Json = False,
) -> None:
    """Close a run, select a checkpoint by hidden validation, measure it on held-out cases, and print the outcome."""
    with hidden_progress("validation, then held-out") as progress:
        api.finish(
            run,
            task=task,
            jobs=jobs,
            engine=engine.value if engine else None,
            isolation=isolation.value if isolation else None,
            progress=progress,
            notice=stderr.print,
        )
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
    with hidden_progress("held-out") as progress:
        api.score(
            run,
            all_checkpoints=all_checkpoints,
            task=task,
            jobs=jobs,
            engine=engine.value if engine else None,
            isolation=isolation.value if isolation else None,
            progress=progress,
            notice=stderr.print,
        )
    show_scores(run, json)


def verify(
    run: RunFolder,
    task: OwnTask = None,
    jobs: LocalJobs = CORES,
    isolation: PolicyIsolation = IsolationChoice.AUTO,
    json: Json = False,
) -> None:
    """Recompute everything that can be recomputed, and report what does not match. Nothing is written. The policy runs
    isolated whatever the run's own settings say, unless you give --isolation none."""
    verification = api.verify(run, task=task, jobs=jobs, isolation=isolation.value)
    if json:
        print_json(verification.as_dict())
    else:
        for finding in verification.findings:
            stdout.print(f"{_mark(finding, verification)} {finding.what}: {finding.detail}")
    if not verification.ok:
        raise typer.Exit(1)


def _mark(finding: VerifyCheck, verification: Verification) -> str:
    """Return DIFF, not FAIL, for other returns on another kind of machine: equal bits are not promised there."""
    if finding.ok:
        return "ok  "
    replays = {"replay": verification.replay, "first": verification.first_replay}
    return "DIFF" if replays.get(finding.what) is Replay.DIFFERS else "FAIL"
