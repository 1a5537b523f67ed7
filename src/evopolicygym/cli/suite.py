"""`evopolicygym suite`: many runs with one command."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli import suite_text
from evopolicygym.cli.output import print_json, print_refused_nodes, stderr
from evopolicygym.cli.play_options import Engine, RayAddress
from evopolicygym.errors import UserError
from evopolicygym.execution.ray.cluster import RayCluster
from evopolicygym.execution.slots import check_jobs
from evopolicygym.files import write_atomic
from evopolicygym.runs.folder_names import check_path_is_neutral
from evopolicygym.runs.settings import CORES, EngineName
from evopolicygym.suites import worker as run_worker
from evopolicygym.suites.estimate import estimate
from evopolicygym.suites.file import PlannedRun, Suite, plan
from evopolicygym.suites.folder import FILE, SuiteFolder, check_unchanged, is_owned
from evopolicygym.suites.scheduler import Scheduler
from evopolicygym.suites.status import SuiteRow, SuiteStatus, status_json, write_status

app = typer.Typer(no_args_is_help=True, help="Run a whole table of runs: tasks x agents x repeats.")
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
    engine.check_address(ray_address)
    if engine is EngineName.LOCAL:
        check_jobs(jobs)
    path = file / FILE if file.is_dir() else file
    suite = Suite.read(path, set_ or [])
    suite_folder = SuiteFolder((folder or _default_folder(path, suite)).absolute())
    planned = plan(suite)
    for run in planned:
        check_path_is_neutral(suite_folder.run(run.name), run.settings, run.task)
    check_unchanged(suite_folder, planned)
    if dry_run:
        _show_plan(suite, suite_folder, planned, json)
        return
    planned[0].settings.splits()  # creates a missing sealing key here, once, instead of in many runs at a time
    suite_folder.make()
    on_cluster = _ray_cluster(planned, jobs, ray_address) if engine is EngineName.RAY else nullcontext()
    with suite_folder.locked(), on_cluster as cluster:
        write_atomic(suite_folder.file, suite.toml().encode())
        scheduler = Scheduler(suite_folder, planned, suite.cap, jobs, parallel_runs, cluster)
        asyncio.run(_run(scheduler, suite_folder, suite))
    _conclude(scheduler, suite_folder, suite, planned, json)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a suite.")],
    json: Annotated[bool, typer.Option("--json", help="Print the current content of suite.json.")] = False,
) -> None:
    """Show how far each run of a suite is. Exit code 1 until every run has a score."""
    suite_folder = SuiteFolder(folder.absolute())
    if not suite_folder.file.exists():
        raise UserError(f"{folder} holds no suite", f"Name the folder of a suite: the one with {FILE}.")
    suite = Suite.read(suite_folder.file)
    rows = _current_rows(suite_folder, plan(suite))
    if json:
        print_json(status_json(suite, rows))
    else:
        suite_text.show_status(suite.name, rows)
    sys.exit(0 if all(row.is_over for row in rows) else 1)


@app.command(hidden=True)
def worker() -> None:
    """Play one run of a suite; the scheduler writes its configuration to standard input."""
    run_worker.main()


def _show_plan(suite: Suite, suite_folder: SuiteFolder, planned: list[PlannedRun], json: bool) -> None:
    costs = estimate(planned, _current_rows(suite_folder, planned))
    if json:
        print_json(costs.facts())
    else:
        suite_text.show_estimate(suite.name, costs)


def _current_rows(suite_folder: SuiteFolder, planned: list[PlannedRun]) -> list[SuiteRow]:
    return SuiteStatus(suite_folder, planned, lambda name: is_owned(suite_folder.run(name))).rows()


@contextmanager
def _ray_cluster(planned: list[PlannedRun], jobs: int, address: str | None) -> Iterator[RayCluster]:
    tasks = {run.task.id: run.task for run in planned}
    levels = planned[0].settings.isolation.levels()
    with RayCluster(list(tasks.values()), levels, address, None if address else jobs) as cluster:
        print_refused_nodes(cluster.nodes)
        yield cluster


async def _run(scheduler: Scheduler, suite_folder: SuiteFolder, suite: Suite) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, scheduler)
    written: list[SuiteRow] = []
    with suite_text.progress(suite.name, suite_folder.root) as show:

        def tick() -> None:
            rows = scheduler.status.rows()
            if rows != written:
                write_status(suite_folder, suite, rows)
                written[:] = rows
            show(rows)

        await scheduler.run(tick)


def _stop(scheduler: Scheduler) -> None:
    if not scheduler.is_stopped:
        running = pluralize(scheduler.running, "run")
        stderr.print(f"stopping: waiting for {running} to end the current submission; Ctrl-C again stops at once")
    scheduler.stop()


def _conclude(
    scheduler: Scheduler, suite_folder: SuiteFolder, suite: Suite, planned: list[PlannedRun], json: bool
) -> None:
    """Show the final status. Exit with 0 only if every run has a score."""
    rows = scheduler.status.rows()
    write_status(suite_folder, suite, rows)
    if json:
        print_json(status_json(suite, rows))
    else:
        suite_text.show_status(suite.name, rows)
    unscored = sum(not row.is_over for row in rows)
    if others := len(suite_folder.others(planned)):
        runs = _relative(suite_folder.root / "runs")
        stderr.print(f"{others} more in {runs} are not in this suite; the leaderboard of the folder counts them")
    if scheduler.is_capped and unscored:
        stderr.print("no new run was started: the suite's cap on spending is reached")
    folder = _relative(suite_folder.root)
    if unscored:
        stderr.print(
            f"no score: {unscored} of {pluralize(len(rows), 'run')}; continue with `evopolicygym suite run {folder}`"
        )
        sys.exit(INTERRUPTED if scheduler.is_stopped else 1)
    have = "the run has" if len(rows) == 1 else f"all {len(rows)} runs have"
    stderr.print(f"{have} a score; next: `evopolicygym leaderboard {folder}`")


def _default_folder(path: Path, suite: Suite) -> Path:
    """Return the folder of the file if it is the resolved file of a suite, else runs/NAME."""
    is_resolved = path.name == FILE and (path.parent / "runs").is_dir()
    return path.parent if is_resolved else Path("runs", suite.name)


def _relative(root: Path) -> str:
    """Return a path as a person in this folder would type it."""
    return shlex.quote(str(root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root))
