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
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.api import suite as api
from evopolicygym.cli import suite_text
from evopolicygym.cli.output import print_json, stderr
from evopolicygym.cli.play_options import Engine, RayAddress
from evopolicygym.errors import RunSuspended
from evopolicygym.runs.settings import CORES, EngineName
from evopolicygym.suites import worker as run_worker
from evopolicygym.suites.estimate import estimate
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done and what it may cost.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print suite.json, or the plan, as JSON.")] = False,
) -> None:
    """Play every run of a suite that has no score yet. The same command continues an interrupted suite."""
    api.check_engine(engine, jobs, ray_address)
    prepared = api.prepare_suite(file, folder, set_ or [])
    if dry_run:
        _show_plan(prepared, json)
        return
    during = partial(_progress, prepared=prepared)
    played = api.play_suite(prepared, jobs, parallel_runs, engine, ray_address, during, stderr.print)
    _conclude(played, prepared, json)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a suite.")],
    json: Annotated[bool, typer.Option("--json", help="Print the current content of suite.json.")] = False,
) -> None:
    """Show how far each run of a suite is. Exit code 1 until every run has a score."""
    progress = api.suite_status(folder)
    _show(progress, json)
    sys.exit(0 if progress.complete else 1)


@app.command(hidden=True)
def worker() -> None:
    """Play one run of a suite; the scheduler writes its configuration to standard input."""
    run_worker.main()


def _show(progress: api.SuiteProgress, json: bool) -> None:
    if json:
        print_json(progress.as_dict())
    else:
        suite_text.show_status(progress.name, progress.rows)


def _show_plan(prepared: api.PreparedSuite, json: bool) -> None:
    costs = estimate(prepared.planned, prepared.progress().rows)
    if json:
        print_json(costs.facts())
    else:
        suite_text.show_estimate(prepared.suite.name, costs, [run.settings.variant for run in prepared.planned])


@contextmanager
def _progress(scheduler: Scheduler, prepared: api.PreparedSuite) -> Iterator[suite_text.Show]:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, scheduler)
    with suite_text.progress(prepared.suite.name, prepared.folder.root) as show:
        yield show


def _stop(scheduler: Scheduler) -> None:
    if not scheduler.is_stopped:
        running = pluralize(scheduler.running, "run")
        stderr.print(f"stopping: waiting for {running} to end the current submission; Ctrl-C again stops at once")
    scheduler.stop()


def _conclude(scheduler: Scheduler, prepared: api.PreparedSuite, json: bool) -> None:
    """Show the final status. Exit with 0 only if every run has a score, with 5 if only suspended runs lack one."""
    suite_folder, rows = prepared.folder, tuple(scheduler.status.rows())
    _show(api.SuiteProgress(prepared.suite.name, suite_folder.root, rows), json)
    unscored = sum(not row.is_over for row in rows)
    if others := len(suite_folder.others(prepared.planned)):
        runs = _relative(suite_folder.root / "runs")
        stderr.print(f"{others} more in {runs} are not in this suite; the leaderboard of the folder counts them")
    if scheduler.is_capped and unscored:
        stderr.print("no new run was started: the suite's cap on spending is reached")
    folder = _relative(suite_folder.root)
    if unscored:
        stderr.print(
            f"no score: {unscored} of {pluralize(len(rows), 'run')}; continue with `evopolicygym suite run {folder}`"
        )
        sys.exit(INTERRUPTED if scheduler.is_stopped else _exit_code(rows))
    have = "the run has" if len(rows) == 1 else f"all {len(rows)} runs have"
    stderr.print(f"{have} a score; next: `evopolicygym leaderboard {folder}`")


def _exit_code(rows: Sequence[SuiteRow]) -> int:
    """Return 5 if all that is missing are suspended runs, else 1."""
    unscored = {row.status for row in rows if not row.is_over}
    return RunSuspended.exit_code if unscored == {SuiteRunStatus.SUSPENDED} else 1


def _relative(root: Path) -> str:
    """Return a path as a person in this folder would type it."""
    return shlex.quote(str(root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root))
