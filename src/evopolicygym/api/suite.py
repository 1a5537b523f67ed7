"""Play a suite: tasks x agents x variants x repeats, and report its progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.api.evaluate import EngineChoice, checked_jobs, member, report_refused_nodes
from evopolicygym.api.results import Runs, read_runs
from evopolicygym.api.run import run_coroutine
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    import pandas

    from evopolicygym.execution.ray.cluster import RayCluster
    from evopolicygym.runs.settings import EngineName
    from evopolicygym.suites.estimate import SuiteEstimate
    from evopolicygym.suites.file import PlannedRun, Suite
    from evopolicygym.suites.folder import SuiteFolder
    from evopolicygym.suites.preflight import PreflightReport
    from evopolicygym.suites.scheduler import Scheduler
    from evopolicygym.suites.status import SuiteRow, SuiteTotals

PathLike = str | os.PathLike[str]
Show = Callable[[Sequence["SuiteRow"]], object]


@dataclass(frozen=True)
class SuiteProgress:
    """The progress of a suite: one row for each of its runs, in the order in which they start."""

    name: str
    folder: Path
    rows: tuple[SuiteRow, ...]

    @property
    def complete(self) -> bool:
        """Whether every run has a score."""
        return all(row.is_over for row in self.rows)

    @property
    def totals(self) -> SuiteTotals:
        """Runs by status, episodes, tokens, dollars, elapsed and estimated remaining time."""
        from evopolicygym.suites.status import suite_totals

        return suite_totals(self.rows)

    @property
    def runs(self) -> Runs:
        """The runs that have begun, as ``load_runs`` returns them."""
        return read_runs(self.folder / "runs")

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``rows`` as a data frame."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows])

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `suite status --json` prints it: suite.json, and the totals."""
        from evopolicygym.suites.status import status_json

        return status_json(self.name, self.rows) | {"totals": self.totals.as_dict()}


@dataclass(frozen=True)
class PreparedSuite:
    """A suite that was read and planned; nothing of it is started."""

    suite: Suite
    folder: SuiteFolder
    planned: list[PlannedRun]

    def preflight(self, engine: EngineName, live: bool = False) -> PreflightReport:
        """Check whether its runs can be played here. ``live``: ask the model of each agent for one word."""
        from evopolicygym.api.agents import play_live_turn
        from evopolicygym.suites.preflight import check_suite

        rows = self.progress().rows
        return check_suite(self.folder, self.planned, rows, engine, play_live_turn if live else None)

    def estimate(self) -> SuiteEstimate:
        """Estimate what its runs without a score cost."""
        from evopolicygym.suites.estimate import estimate

        return estimate(self.planned, self.progress().rows, self.folder.root.parent)

    def progress(self, left_out: Mapping[str, str] = MappingProxyType({}), at_most: int | None = None) -> SuiteProgress:
        """Return how far each run is, by what its folder says. ``left_out``: runs that cannot be played, with the
        reasons. ``at_most``: bytes that are read for all runs together."""
        from evopolicygym.suites.folder import is_owned
        from evopolicygym.suites.status import SuiteStatus

        folder = self.folder
        status = SuiteStatus(folder, self.planned, lambda name: is_owned(folder.run(name)), left_out, at_most)
        return SuiteProgress(self.suite.name, self.folder.root, tuple(status.rows()))

    def runs_for_anchors(self) -> list[Path]:
        """Return a finished run of each task and variant, by which `measure_missing_anchors` finds their cases."""
        from evopolicygym.runs.run_status import has_outcome

        finished: dict[tuple[str, str], Path] = {}
        for run in self.planned:
            folder = self.folder.run(run.name)
            with suppress(UserError):  # it was not started, or is broken: the progress says so
                if has_outcome(folder):
                    finished[run.task.id, run.settings.variant] = folder
        return list(finished.values())


def run_suite(
    file: PathLike,
    *,
    folder: PathLike | None = None,
    overrides: Sequence[str] = (),
    jobs: int | None = None,
    engine: EngineChoice = "local",
    ray_address: str | None = None,
    parallel_runs: int = 4,
    skip_unready: bool = False,
    progress: Callable[[SuiteProgress], object] | None = None,
    notice: Callable[[str], object] | None = None,
) -> SuiteProgress:
    """Play every run of a suite that has no score yet. The same call continues a suite that was interrupted.

    Args:
        file: A suite file (docs/suites.md), or the folder of a suite to continue.
        folder: Folder for the runs (default: ``runs/NAME``).
        overrides: Values that replace some of the file, such as ``["agents.codex.model=X", "repeats=3"]``.
        jobs: Episodes at a time, over all runs (default: the cores of this machine).
        engine, ray_address: Where episodes are played, as in ``run``.
        parallel_runs: Agents that work at the same time.
        skip_unready: Leave out the runs whose agent or task cannot be played here; their rows are ``unready``.
        progress: Called with a ``SuiteProgress`` whenever it has changed.
        notice: Called with each warning (default: ``warnings.warn``).

    Returns:
        A ``SuiteProgress``. ``complete`` is False if a run has no score; its row has the ``reason``.

    Raises:
        UserError: The file is wrong, the folder holds runs of this suite with other settings, or something cannot be
            played here: nothing was started.
        KeyboardInterrupt, or any other end of the program: runs are stopped, and nothing is lost.

    >>> import evopolicygym, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> text = '''
    ... tasks = ["core16/mountain-car-continuous"]
    ... splits = {seeds = "paper", validation_cases = 1, heldout_cases = 1}
    ... defaults = {budget = 1}
    ... agents = {starter = {}}
    ... '''
    >>> _ = (folder / "small.toml").write_text(text)
    >>> suite = evopolicygym.run_suite(folder / "small.toml", folder=folder / "out")
    >>> suite.complete, [run.agent for run in suite.runs]
    (True, ['starter'])
    """
    from evopolicygym.runs.settings import EngineName

    notify = notice or warnings.warn
    if parallel_runs < 1:
        raise UserError(f"parallel_runs is {parallel_runs}", "At least one agent must work at a time.")
    chosen = member(EngineName, engine, "engine")
    check_engine(chosen, checked_jobs(jobs), ray_address)
    prepared = prepare_suite(Path(file), None if folder is None else Path(folder), overrides)
    left_out = check_ready(prepared.preflight(chosen), skip_unready)

    @contextmanager
    def reporting(_: Scheduler) -> Iterator[Show]:
        reported: list[SuiteRow] = []

        def show(rows: Sequence[SuiteRow]) -> None:
            if progress and rows != reported:
                progress(SuiteProgress(prepared.suite.name, prepared.folder.root, tuple(rows)))
                reported[:] = rows

        yield show

    count = checked_jobs(jobs)
    scheduler = play_suite(prepared, count, parallel_runs, chosen, ray_address, reporting, notify, left_out)
    result = SuiteProgress(prepared.suite.name, prepared.folder.root, tuple(scheduler.status.rows()))
    if scheduler.is_capped and not result.complete:
        notify("the suite's cap is reached: no new run was started")
    return result


def preflight(
    file: PathLike,
    *,
    folder: PathLike | None = None,
    overrides: Sequence[str] = (),
    engine: EngineChoice = "local",
    live: bool = False,
) -> PreflightReport:
    """Check whether the runs of a suite can be played here: every agent (client, version, key or login, price), every
    task (its simulator starts), isolation and disk space. Nothing is started. ``run_suite`` does the same first.

    Args:
        file, folder, overrides, engine: As in ``run_suite``.
        live: Ask the model of each agent for one word.

    Returns:
        A ``PreflightReport``: ``ready``, ``checks`` (each with ``kind``, ``name``, ``ok``, ``detail``, ``remedy``), and
        ``unready``, the names of the runs that cannot be played with the reasons.

    Raises:
        UserError: The file is wrong, or the folder holds runs of this suite with other settings.

    >>> import evopolicygym, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "small.toml").write_text('tasks = ["core16/acrobot"]\\nagents = {tuner = {}, invented = {}}')
    >>> report = evopolicygym.preflight(folder / "small.toml", folder=folder / "out")
    >>> report.ready, [check.name for check in report.checks if not check.ok], list(report.unready)
    (False, ['invented'], ['core16-acrobot__invented__s0'])
    """
    from evopolicygym.runs.settings import EngineName

    chosen = member(EngineName, engine, "engine")
    return prepare_suite(Path(file), None if folder is None else Path(folder), overrides).preflight(chosen, live)


def estimate_suite(file: PathLike, *, folder: PathLike | None = None, overrides: Sequence[str] = ()) -> SuiteEstimate:
    """Estimate what the runs of a suite that have no score cost: episodes, core time and money. Nothing is started.

    Args:
        file, folder, overrides: As in ``run_suite``.

    Returns:
        A ``SuiteEstimate``: the ``total``, and the same by agent in ``agents``, each with ``runs``, ``done``,
        ``episodes``, ``core_hours``, ``dollars`` and ``dollars_basis``. Episodes and hours are upper bounds.

    Raises:
        UserError: The file is wrong, or the folder holds runs of this suite with other settings.

    >>> import evopolicygym, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "small.toml").write_text('tasks = ["core16/acrobot"]\\nagents = {tuner = {}, starter = {}}')
    >>> total = evopolicygym.estimate_suite(folder / "small.toml", folder=folder / "out").total
    >>> total.runs, total.episodes, total.dollars
    (2, 4544, 0.0)
    """
    return prepare_suite(Path(file), None if folder is None else Path(folder), overrides).estimate()


def check_ready(report: PreflightReport, skip_unready: bool) -> dict[str, str]:
    """Return the runs to leave out, with the reasons. Raise UserError if nothing may start."""
    failed = [check for check in report.checks if not check.ok]
    if not failed or (skip_unready and report.can_start):
        return report.unready
    remedies = [f". {check.remedy}" if check.remedy else "" for check in failed]
    lines = "\n".join(
        f"  {check.kind} {check.name}: {check.detail}{remedy}" for check, remedy in zip(failed, remedies, strict=True)
    )
    skip = " To play the other runs now, add --skip-unready (skip_unready=True)." if report.can_start else ""
    raise UserError(
        f"{pluralize(len(report.unready), 'run')} of this suite cannot be played here:\n{lines}"
        if report.can_start
        else f"this suite cannot be played here:\n{lines}",
        f"Nothing was started. Fix this and repeat the command.{skip}",
    )


def suite_status(folder: PathLike) -> SuiteProgress:
    """Return how far each run of a suite is, whether or not a process works on it. No module and no task file that the
    suite names is loaded.

    Args:
        folder: The folder of a suite.

    Raises:
        UserError: There is no suite in the folder, or its file cannot be read.

    >>> import evopolicygym, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "suite.toml").write_text('tasks = ["core16/acrobot"]\\nrepeats = 2\\nagents = {tuner = {}}')
    >>> status = evopolicygym.suite_status(folder)
    >>> status.complete, [str(row.status) for row in status.rows]
    (False, ['waiting', 'waiting'])
    """
    from evopolicygym.suites.file import Suite, plan
    from evopolicygym.suites.folder import FILE, SuiteFolder
    from evopolicygym.suites.status import MAX_STATUS_BYTES, last_left_out

    suite_folder = SuiteFolder(Path(folder).absolute())
    if suite_folder.file.is_symlink() or not suite_folder.file.exists():
        raise UserError(f"{folder} holds no suite", f"Name the folder of a suite: the one with {FILE}.")
    suite = Suite.read(suite_folder.file)
    prepared = PreparedSuite(suite, suite_folder, plan(suite, is_trusted=False))
    return prepared.progress(last_left_out(suite_folder), MAX_STATUS_BYTES)


def check_engine(engine: EngineName, jobs: int, ray_address: str | None) -> None:
    """Raise UserError for an engine that cannot be used as it is asked for."""
    from evopolicygym.execution.slots import check_jobs
    from evopolicygym.runs.settings import EngineName

    engine.check_address(ray_address)
    if engine is EngineName.LOCAL:
        check_jobs(jobs)


def prepare_suite(file: Path, folder: Path | None, overrides: Sequence[str]) -> PreparedSuite:
    """Read a suite file, or that of a suite's folder, and plan its runs."""
    from evopolicygym.runs.folder_names import SUITE_REMEDY, check_path_is_neutral
    from evopolicygym.suites.file import Suite, plan
    from evopolicygym.suites.folder import FILE, SuiteFolder, check_unchanged

    path = file / FILE if file.is_dir() else file
    suite = Suite.read(path, overrides)
    is_resolved = path.name == FILE and (path.parent / "runs").is_dir()  # the file of a suite that has begun
    root = folder or (path.parent if is_resolved else Path("runs", suite.name))
    prepared = PreparedSuite(suite, SuiteFolder(root.absolute()), plan(suite))
    for run in prepared.planned:
        check_path_is_neutral(prepared.folder.run(run.name), run.settings, run.task, SUITE_REMEDY)
    check_unchanged(prepared.folder, prepared.planned)
    return prepared


def play_suite(
    prepared: PreparedSuite,
    jobs: int,
    parallel_runs: int,
    engine: EngineName,
    ray_address: str | None,
    during: Callable[[Scheduler], AbstractContextManager[Show]],
    notify: Callable[[str], object],
    left_out: Mapping[str, str],
) -> Scheduler:
    """Play the runs that have no score, but for those ``left_out``. ``during`` is entered while they are played; what
    it yields is called with the rows about twice a second."""
    from evopolicygym.files import write_atomic
    from evopolicygym.runs.settings import EngineName
    from evopolicygym.suites.scheduler import Scheduler
    from evopolicygym.suites.status import write_status

    suite, folder, planned = prepared.suite, prepared.folder, prepared.planned
    planned[0].settings.splits()  # creates a missing sealing key here, once, instead of in many runs at a time
    folder.make()
    is_remote = engine is EngineName.RAY
    with folder.locked(), _ray_cluster(planned, jobs, ray_address, notify) if is_remote else nullcontext() as cluster:
        write_atomic(folder.file, suite.toml().encode())
        scheduler = Scheduler(folder, planned, suite.cap, jobs, parallel_runs, cluster, suite.calls, left_out)

        async def play() -> None:
            written: list[SuiteRow] = []
            with during(scheduler) as show:

                def tick() -> None:
                    rows = scheduler.status.rows()
                    if rows != written and not scheduler.shortage.resource:
                        scheduler.shortage.tolerate(lambda: write_status(folder, suite.name, rows))
                        written[:] = rows
                    show(rows)

                await scheduler.run(tick)

        run_coroutine(play())
    write_status(folder, suite.name, scheduler.status.rows())
    return scheduler


@contextmanager
def _ray_cluster(
    planned: Sequence[PlannedRun], jobs: int, address: str | None, notify: Callable[[str], object]
) -> Iterator[RayCluster]:
    from evopolicygym.execution.ray.cluster import RayCluster

    tasks = {run.task.id: run.task for run in planned}
    levels = planned[0].settings.isolation.levels()
    with RayCluster(list(tasks.values()), levels, address, None if address else jobs) as cluster:
        report_refused_nodes(cluster.nodes, notify)
        yield cluster
