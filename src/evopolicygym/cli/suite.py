"""`evopolicygym suite`: many runs with one command."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli import suite_table
from evopolicygym.cli.numbers import counted
from evopolicygym.cli.output import print_json, talk, tell_refused
from evopolicygym.cli.suite_plan import show_plan
from evopolicygym.errors import UserError
from evopolicygym.execution.ray.cluster import RayCluster
from evopolicygym.execution.slots import check_jobs
from evopolicygym.files import write_atomic
from evopolicygym.runs.settings import CORES, EngineName
from evopolicygym.suites import worker as members
from evopolicygym.suites.file import Suite
from evopolicygym.suites.folder import FILE, SuiteFolder, check_unchanged, is_owned
from evopolicygym.suites.plan import PlannedRun, plan
from evopolicygym.suites.scheduler import Scheduler
from evopolicygym.suites.status import SuiteRow, SuiteStatus, table, write_table

app = typer.Typer(no_args_is_help=True, help="Many runs with one command: tasks x agents x repeats.")
INTERRUPTED = 130


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A suite file, or the folder of a suite that has begun.")],
    folder: Annotated[Path | None, typer.Option(help="Where its runs go (default: runs/NAME).")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, as agents.codex.model=X.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Episodes at a time, over all runs, on this machine.")] = CORES,
    engine: Annotated[EngineName, typer.Option(help="This machine, or Ray.")] = EngineName.LOCAL,
    ray_address: Annotated[str | None, typer.Option(help="A Ray cluster, or auto (default: a Ray of our own).")] = None,
    parallel_runs: Annotated[int, typer.Option(min=1, help="Agents at a time.")] = 4,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print suite.json at the end, or the plan.")] = False,
) -> None:
    """Do what is missing of a suite. Run it again, and it goes on."""
    engine.check_address(ray_address)
    if engine is EngineName.LOCAL:
        check_jobs(jobs)
    path = file / FILE if file.is_dir() else file
    suite = Suite.read(path, set_ or [])
    place = SuiteFolder((folder or _folder(path, suite)).absolute())
    planned = plan(suite)
    check_unchanged(place, planned)
    if dry_run:
        show_plan(suite, planned, SuiteStatus(place, planned, lambda name: is_owned(place.run(name))).rows(), json)
        return
    planned[0].settings.splits()  # a sealing key is made once, not by many runs at a time
    place.make()
    with _alone(place.root), _fleet(planned, jobs, ray_address) if engine is EngineName.RAY else nullcontext() as fleet:
        write_atomic(place.file, suite.toml().encode())
        foreman = Scheduler(place, planned, suite.cap, jobs, parallel_runs, fleet)
        asyncio.run(_work(foreman, place, suite))
    _conclude(foreman, place, suite, planned, json)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a suite.")],
    json: Annotated[bool, typer.Option("--json", help="Print what suite.json holds, as of now.")] = False,
) -> None:
    """How the runs of a suite stand."""
    suite, place, planned = _open(folder)
    rows = SuiteStatus(place, planned, lambda name: is_owned(place.run(name))).rows()
    if json:
        print_json(table(suite, rows))
    else:
        suite_table.show(suite.name, rows)
    sys.exit(0 if all(row.is_over for row in rows) else 1)


@app.command(hidden=True)
def member() -> None:
    """One run of a suite. Its foreman says which."""
    members.main()


@contextmanager
def _fleet(planned: list[PlannedRun], jobs: int, address: str | None) -> Iterator[RayCluster]:
    tasks = {one.task.id: one.task for one in planned}
    levels = planned[0].settings.isolation.levels()
    with RayCluster(list(tasks.values()), levels, address, None if address else jobs) as fleet:
        tell_refused(fleet.nodes)
        yield fleet


async def _work(foreman: Scheduler, place: SuiteFolder, suite: Suite) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, foreman)
    written: list[SuiteRow] = []
    with suite_table.watching(suite.name, place.root) as show:

        def tick() -> None:
            rows = foreman.survey.rows()
            if rows != written:
                write_table(place, suite, rows)
                written[:] = rows
            show(rows)

        await foreman.work(tick)


def _stop(foreman: Scheduler) -> None:
    if not foreman.is_stopped:
        talk.print(
            f"stopping: {counted(foreman.running, 'run')} to end the submission under way; Ctrl-C again stops at once"
        )
    foreman.stop()


def _conclude(foreman: Scheduler, place: SuiteFolder, suite: Suite, planned: list[PlannedRun], json: bool) -> None:
    """Exit code 0 only when every run has a score."""
    rows = foreman.survey.rows()
    write_table(place, suite, rows)
    if json:
        print_json(table(suite, rows))
    else:
        suite_table.show(suite.name, rows)
    left = sum(not row.is_over for row in rows)
    if others := len(place.others(planned)):
        talk.print(
            f"{others} more in {_shown(place.root / 'runs')} are not in this suite; tables of the folder count them"
        )
    if foreman.is_capped and left:
        talk.print("the suite's cap on spending is reached: no new run was begun")
    if left:
        talk.print(
            f"no score: {left} of {counted(len(rows), 'run')}; `evopolicygym suite run {_shown(place.root)}` goes on",
        )
        sys.exit(INTERRUPTED if foreman.is_stopped else 1)
    have = "the run has" if len(rows) == 1 else f"all {len(rows)} runs have"
    talk.print(f"{have} a score; next: `evopolicygym leaderboard {_shown(place.root)}`")


def _open(folder: Path) -> tuple[Suite, SuiteFolder, list[PlannedRun]]:
    place = SuiteFolder(folder.absolute())
    if not place.file.exists():
        raise UserError(f"{folder} holds no suite", f"Name the folder of a suite: the one with {FILE}.")
    suite = Suite.read(place.file)
    return suite, place, plan(suite)


def _folder(path: Path, suite: Suite) -> Path:
    """A resolved file lies beside its runs."""
    is_resolved = path.name == FILE and (path.parent / "runs").is_dir()
    return path.parent if is_resolved else Path("runs", suite.name)


def _shown(root: Path) -> str:
    """As a person here would type it."""
    return shlex.quote(str(root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root))


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One foreman for one suite; the lock dies with its holder."""
    lock = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        remedy = f"Look at it with `evopolicygym suite status {_shown(root)}`."
        raise UserError(f"another process works on the suite in {root}", remedy) from None
    try:
        yield
    finally:
        os.close(lock)
