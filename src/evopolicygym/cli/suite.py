"""`evopolicygym suite`: many runs with one command."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.api import suite as api
from evopolicygym.cli.missing_anchors import MissingAnchors, add_missing_anchors
from evopolicygym.cli.output import print_hint, print_json
from evopolicygym.cli.play_options import Engine, RayAddress
from evopolicygym.cli.text import suite as suite_text
from evopolicygym.cli.text.suite_matrix import show_matrix
from evopolicygym.errors import RunSuspended
from evopolicygym.runs.settings import CORES, EngineName
from evopolicygym.suites import worker as run_worker
from evopolicygym.suites.preflight import PreflightReport
from evopolicygym.suites.scheduler import Scheduler
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus

app = typer.Typer(no_args_is_help=True, help="Run a whole table of runs: tasks x agents x variants x repeats.")
INTERRUPTED = 130


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Suite file, or the folder of a suite to continue.")],
    folder: Annotated[Path | None, typer.Option(help="Folder for the runs (default: runs/NAME).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Replace a value of the file: agents.codex.model=X. Repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Episodes played in parallel, over all runs.")] = CORES,
    engine: Engine = EngineName.LOCAL,
    ray_address: RayAddress = None,
    parallel_runs: Annotated[int, typer.Option(min=1, help="Agents that work in parallel.")] = 4,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Maximum tokens of all runs together.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Maximum dollars of all runs together.")] = None,
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Maximum calls to models of all runs together.")
    ] = None,
    anchors: MissingAnchors = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print what would be done and cost; start nothing.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="First ask each agent's model for one word.")] = False,
    skip_unready: Annotated[
        bool, typer.Option("--skip-unready", help="Leave out runs whose agent or task cannot be played here.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print suite.json, or the plan, as JSON.")] = False,
) -> None:
    """Play every run of a suite that has no score yet. The same command continues an interrupted suite."""
    api.check_engine(engine, jobs, ray_address)
    cap = {"tokens": max_tokens, "dollars": max_cost, "requests": max_requests}
    overrides = [f"cap.{name}={value}" for name, value in cap.items() if value is not None]
    prepared = api.prepare_suite(file, folder, [*(set_ or []), *overrides])
    agents, tasks = {run.agent for run in prepared.planned}, {run.task.id for run in prepared.planned}
    print_hint(f"checking {pluralize(len(agents), 'agent')} and {pluralize(len(tasks), 'task')}")
    if dry_run:
        _show_plan(prepared, prepared.preflight(engine, live), json)
    left_out = api.check_ready(prepared.preflight(engine, live), skip_unready)
    if left_out:
        print_hint(f"left out: {pluralize(len(left_out), 'run')} that cannot be played here")
        for reason in dict.fromkeys(left_out.values()):
            print_hint(f"  {reason}")
    during = partial(_progress, prepared=prepared)
    played = api.play_suite(prepared, jobs, parallel_runs, engine, ray_address, during, print_hint, left_out)
    if anchors and not played.is_stopped:
        for finished in prepared.runs_for_anchors():
            add_missing_anchors(finished, {})
    _conclude(played, prepared, " --skip-unready" if left_out else "", json)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a suite.")],
    verbose: Annotated[bool, typer.Option("--verbose", help="Print one row for each run.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the current content of suite.json, with totals.")] = False,
) -> None:
    """Show the progress of a suite: tasks by agents, with totals. Exit code 1 until every run has a score."""
    progress = api.suite_status(folder)
    _show(progress, json, verbose)
    sys.exit(0 if progress.complete else 1)


@app.command(hidden=True)
def worker() -> None:
    """Play one run of a suite; the scheduler writes its configuration to standard input."""
    run_worker.main()


def _show(progress: api.SuiteProgress, json: bool, verbose: bool = False) -> None:
    if json:
        print_json(progress.as_dict())
    elif verbose:
        suite_text.show_status(progress.name, progress.rows)
    else:
        show_matrix(progress.name, progress.rows)


def _show_plan(prepared: api.PreparedSuite, report: PreflightReport, json: bool) -> NoReturn:
    """Show what would be done. Exit with 1 if something that was asked for cannot be played."""
    costs = prepared.estimate()
    if json:
        print_json(costs.facts() | {"preflight": report.as_dict()})
    else:
        suite_text.show_estimate(prepared.suite.name, costs, [run.settings.variant for run in prepared.planned])
        suite_text.show_preflight(report)
    sys.exit(0 if report.ready else 1)


@contextmanager
def _progress(scheduler: Scheduler, prepared: api.PreparedSuite) -> Iterator[suite_text.Show]:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, scheduler)
    with suite_text.progress(prepared.suite.name, prepared.folder.root) as show:
        yield show


def _stop(scheduler: Scheduler) -> None:
    if not scheduler.is_stopped:
        running = pluralize(scheduler.running, "run")
        print_hint(f"stopping: waiting for {running} to end the current submission; Ctrl-C again stops at once")
    scheduler.stop()


def _conclude(scheduler: Scheduler, prepared: api.PreparedSuite, options: str, json: bool) -> None:
    """Show the final status. ``options``: those that continue the suite as it was played.

    Exit with 0 only if every run has a score, with 5 if only suspended runs lack one."""
    suite_folder, rows = prepared.folder, tuple(scheduler.status.rows())
    _show(api.SuiteProgress(prepared.suite.name, suite_folder.root, rows), json)
    unscored = sum(not row.is_over for row in rows)
    if others := len(suite_folder.others(prepared.planned)):
        runs = _relative(suite_folder.root / "runs")
        other_runs = pluralize(others, "other run")
        print_hint(f"not in this suite, but on the leaderboard of its folder: {other_runs} in {runs}")
    if scheduler.is_capped and unscored:
        print_hint(
            "the suite's cap is reached: no new run was started; raise --max-tokens, --max-cost or --max-requests"
        )
    folder = _relative(suite_folder.root)
    if unscored:
        again = f"evopolicygym suite run {folder}{options}"
        print_hint(f"no score: {unscored} of {pluralize(len(rows), 'run')}; continue with `{again}`")
        sys.exit(INTERRUPTED if scheduler.is_stopped else _exit_code(rows))
    have = "the run has" if len(rows) == 1 else f"all {len(rows)} runs have"
    print_hint(f"{have} a score; next: `evopolicygym leaderboard {folder}`")


def _exit_code(rows: Sequence[SuiteRow]) -> int:
    """Return 5 if all that is missing are suspended runs, else 1."""
    unscored = {row.status for row in rows if not row.is_over}
    return RunSuspended.exit_code if unscored == {SuiteRunStatus.SUSPENDED} else 1


def _relative(root: Path) -> str:
    """Return a path as a person in this folder would type it."""
    return shlex.quote(str(root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root))
