"""Play a suite: tasks x agents x variants x repeats, and report how far it is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.api.evaluate import EngineChoice, checked_jobs, member, tell_refused_nodes
from evopolicygym.api.results import Runs, read_runs
from evopolicygym.api.run import complete
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    import pandas

    from evopolicygym.execution.ray.cluster import RayCluster
    from evopolicygym.runs.settings import EngineName
    from evopolicygym.suites.file import PlannedRun, Suite
    from evopolicygym.suites.folder import SuiteFolder
    from evopolicygym.suites.scheduler import Scheduler
    from evopolicygym.suites.status import SuiteRow

PathLike = str | os.PathLike[str]
Show = Callable[[Sequence["SuiteRow"]], object]


@dataclass(frozen=True)
class SuiteProgress:
    """How far a suite is: one row for each of its runs, in the order in which they start."""

    name: str
    folder: Path
    rows: tuple[SuiteRow, ...]

    @property
    def complete(self) -> bool:
        """Whether every run has a score."""
        return all(row.is_over for row in self.rows)

    @property
    def runs(self) -> Runs:
        """The runs that have begun, as ``load_runs`` returns them."""
        return read_runs(self.folder / "runs")

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``rows`` as a data frame."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows])

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as suite.json and `suite status --json` have it."""
        from evopolicygym.suites.status import status_json

        return status_json(self.name, self.rows)


@dataclass(frozen=True)
class PreparedSuite:
    """A suite that was read and planned; nothing of it is started."""

    suite: Suite
    folder: SuiteFolder
    planned: list[PlannedRun]

    def progress(self) -> SuiteProgress:
        """Return how far each run is, by what its folder says."""
        from evopolicygym.suites.folder import is_owned
        from evopolicygym.suites.status import SuiteStatus

        status = SuiteStatus(self.folder, self.planned, lambda name: is_owned(self.folder.run(name)))
        return SuiteProgress(self.suite.name, self.folder.root, tuple(status.rows()))


def run_suite(
    file: PathLike,
    *,
    folder: PathLike | None = None,
    overrides: Sequence[str] = (),
    jobs: int | None = None,
    engine: EngineChoice = "local",
    ray_address: str | None = None,
    parallel_runs: int = 4,
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
        progress: Called with a ``SuiteProgress`` whenever it has changed.
        notice: Called with each warning (default: ``warnings.warn``).

    Returns:
        A ``SuiteProgress``. ``complete`` is False if a run has no score; its row has the ``reason``.

    Raises:
        UserError: The file is wrong, or the folder holds runs of this suite with other settings.
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

    tell = notice or warnings.warn
    if parallel_runs < 1:
        raise UserError(f"parallel_runs is {parallel_runs}", "At least one agent must work at a time.")
    chosen = member(EngineName, engine, "engine")
    check_engine(chosen, checked_jobs(jobs), ray_address)
    prepared = prepare_suite(Path(file), None if folder is None else Path(folder), overrides)

    @contextmanager
    def reporting(_: Scheduler) -> Iterator[Show]:
        reported: list[SuiteRow] = []

        def show(rows: Sequence[SuiteRow]) -> None:
            if progress and rows != reported:
                progress(SuiteProgress(prepared.suite.name, prepared.folder.root, tuple(rows)))
                reported[:] = rows

        yield show

    scheduler = play_suite(prepared, checked_jobs(jobs), parallel_runs, chosen, ray_address, reporting, tell)
    result = SuiteProgress(prepared.suite.name, prepared.folder.root, tuple(scheduler.status.rows()))
    if scheduler.is_capped and not result.complete:
        tell("no new run was started: the suite's cap on spending is reached")
    return result


def suite_status(folder: PathLike) -> SuiteProgress:
    """Return how far each run of a suite is, whether or not a process works on it.

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

    suite_folder = SuiteFolder(Path(folder).absolute())
    if not suite_folder.file.exists():
        raise UserError(f"{folder} holds no suite", f"Name the folder of a suite: the one with {FILE}.")
    suite = Suite.read(suite_folder.file)
    return PreparedSuite(suite, suite_folder, plan(suite)).progress()


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
    tell: Callable[[str], object],
) -> Scheduler:
    """Play the runs that have no score. ``during`` is entered while they are played; what it yields is called with the
    rows about twice a second."""
    from evopolicygym.files import write_atomic
    from evopolicygym.runs.settings import EngineName
    from evopolicygym.suites.scheduler import Scheduler
    from evopolicygym.suites.status import write_status

    suite, folder, planned = prepared.suite, prepared.folder, prepared.planned
    planned[0].settings.splits()  # creates a missing sealing key here, once, instead of in many runs at a time
    folder.make()
    is_remote = engine is EngineName.RAY
    with folder.locked(), _ray_cluster(planned, jobs, ray_address, tell) if is_remote else nullcontext() as cluster:
        write_atomic(folder.file, suite.toml().encode())
        scheduler = Scheduler(folder, planned, suite.cap, jobs, parallel_runs, cluster, suite.calls)

        async def play() -> None:
            written: list[SuiteRow] = []
            with during(scheduler) as show:

                def tick() -> None:
                    rows = scheduler.status.rows()
                    if rows != written:
                        write_status(folder, suite.name, rows)
                        written[:] = rows
                    show(rows)

                await scheduler.run(tick)

        complete(play())
    write_status(folder, suite.name, scheduler.status.rows())
    return scheduler


@contextmanager
def _ray_cluster(
    planned: Sequence[PlannedRun], jobs: int, address: str | None, tell: Callable[[str], object]
) -> Iterator[RayCluster]:
    from evopolicygym.execution.ray.cluster import RayCluster

    tasks = {run.task.id: run.task for run in planned}
    levels = planned[0].settings.isolation.levels()
    with RayCluster(list(tasks.values()), levels, address, None if address else jobs) as cluster:
        tell_refused_nodes(cluster.nodes, tell)
        yield cluster
