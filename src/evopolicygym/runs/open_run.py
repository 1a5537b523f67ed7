"""Open a run, new or existing: make or check its folder, hold its lock, start its engine, and return its judge.

`open_run` is the one entry. While its block is entered this process owns the run (`OpenRun`); then let an agent play it
(runs/agent/loop.py), serve it to a person, or score it (runs/serve.py).
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from evopolicygym import __version__
from evopolicygym.analysis.edits.code_reader import SourceReader
from evopolicygym.errors import FULL, UserError
from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.execution.ray.engine import RayEngine, ray_engine
from evopolicygym.execution.slots import Slots, check_jobs
from evopolicygym.files import is_folder, write_atomic
from evopolicygym.judge import submission
from evopolicygym.judge.events import Joined, Opened, Owned
from evopolicygym.judge.failpoints import failpoint
from evopolicygym.judge.judge import Judge, RunContext, Videos
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_paths import NEW_ENTRIES, RunPaths, check_run_folder
from evopolicygym.run_record import Code
from evopolicygym.runs import disk_reserve, folder_names, record, workspace
from evopolicygym.runs.agent.output import Redactor
from evopolicygym.runs.agent.setup import secret_values
from evopolicygym.runs.locks import LOCK_TIMEOUT_S, CaseSet, RunLock
from evopolicygym.runs.run_status import has_begun, read_state, recorded_settings
from evopolicygym.runs.settings import EngineName, IsolationChoice, RunSettings
from evopolicygym.runs.trust import check_task_is_given, is_signed_here, resume_settings, settings_here, sign
from evopolicygym.sandbox.checkpoints import remove_tree, sweep
from evopolicygym.sandbox.policy.jail import Level, residues
from evopolicygym.tasks.conditions import UNSTATED, FeedbackLevel
from evopolicygym.tasks.contract import render
from evopolicygym.tasks.ids import comparable_facts, ids, machine_facts
from evopolicygym.tasks.novel.generate import is_novel, scale_facts
from evopolicygym.tasks.splits import Splits, new_salt
from evopolicygym.tasks.task import Task

LIBRARY_RECORDS: Final = 200  # log lines of a library that are kept
RECORDED_OPTIONS: Final = ("validate_when", "video", "stock", *UNSTATED)
NO_AGENT: Final[dict[str, Any]] = {"agent": None, "agent_isolation": {"level": "none", "network": "open"}}
NO_AGENT_TO_ISOLATE: Final = {"level": "absent", "network": "none"}
ENTERED: Final[dict[str, Any]] = {"agent": None, "agent_isolation": NO_AGENT_TO_ISOLATE, "entered": True}


@dataclass(frozen=True)
class OpenRun:
    """A run that this process owns. ``notice`` is a warning for its user, such as another CPU than before."""

    paths: RunPaths
    settings: RunSettings
    judge: Judge
    task_text: str
    notice: str = ""
    _code: dict[str, Code] = field(default_factory=dict)

    @property
    def case_set(self) -> CaseSet:
        context = self.judge.context
        return CaseSet(context.task.id, context.splits.id)

    def write_record(self) -> None:
        """Write run.json. When the run is finished, the agent's source is analysed for it, in limited processes."""
        if self.judge.state.phase is RunPhase.FINISHED:
            self._read_code()
        record.write(self.paths, self.judge.state, self.judge.ledger_head, self._code.get)
        failpoint("record-written")

    def _read_code(self) -> None:
        hashes = {each.charged.checkpoint.hash for each in self.judge.state.submissions.values()} - set(self._code)
        reader = SourceReader()
        with ThreadPoolExecutor(self.settings.jobs) as readers:
            facts = readers.map(lambda name: reader.read(self.paths.checkpoints / name), hashes)
            self._code.update(zip(hashes, facts, strict=True))


@contextmanager
def open_run(
    root: Path,
    agent_facts: dict[str, Any] = NO_AGENT,
    slots: Slots | None = None,
    cluster: ClusterInfo | None = None,
    /,
    **given: Any,
) -> Iterator[OpenRun]:
    """Open the run in ``root``, or a new one there if a task is given. When the block is left, another process may own
    the run.

    Args:
        root: The run's folder.
        agent_facts: What the record of a new run says of its agent (`AgentSetup.facts`).
        slots: Slots for episodes that this run shares with others.
        cluster: With Ray, the cluster that the shared slots belong to.
        **given: Settings of the run, by their names in `RunSettings`. Those of an existing run must not differ, apart
            from settings.MAY_DIFFER.

    Raises:
        UserError: A setting is wrong or differs, or the folder holds something else.
        RunIsOwned: Another process owns the run.
    """
    paths = RunPaths(folder_names.resolve_parents(root))
    _set_link_aside(paths.workspace)
    check_run_folder(paths.root)
    is_new = not paths.root.exists()
    if not has_begun(paths.root):
        _check_new(root, given)
        _check_settings(root, RunSettings.make(**given))
        _make_folder(paths)
    with RunLock(paths.root, LOCK_TIMEOUT_S if slots else 0.0):  # from here on no other process can begin it
        is_resumed = has_begun(paths.root)
        paths.make_own()
        settings = _resumed(paths, given) if is_resumed else RunSettings.make(**given)
        try:
            with _started(paths, settings, agent_facts, slots, cluster) as run:
                yield run
        except BaseException:
            if is_new and not has_begun(paths.root):  # the engine did not start: no package, no jail
                remove_tree(paths.root)
            raise


def _set_link_aside(workspace: Path) -> None:
    """Replace a workspace that is a link by a folder: an agent without a jail can put one there, and it is not
    followed."""
    if workspace.is_symlink():
        workspace.rename(workspace.with_name(f"{workspace.name}.link-{secrets.token_hex(4)}"))
        workspace.mkdir(mode=0o755)


def _check_settings(root: Path, settings: RunSettings) -> None:
    """Raise UserError for wrong settings before the folder is made, so that nothing is left behind."""
    folder_names.check_path_is_neutral(root, settings, settings.played_task())
    settings.splits()
    if settings.engine is EngineName.LOCAL:
        check_jobs(settings.jobs)


def _make_folder(paths: RunPaths) -> None:
    try:
        paths.make()
    except OSError as error:
        if error.errno in FULL:
            raise
        raise UserError(f"{paths.root} cannot be made: {error.strerror}", folder_names.NEW_FOLDER) from error
    if not is_folder(paths.root, "workspace/system"):  # the starter policy would be written elsewhere
        raise UserError(f"{paths.system} is a link, which is not followed", folder_names.NEW_FOLDER)


def _resumed(paths: RunPaths, given: dict[str, Any]) -> RunSettings:
    """Return the settings of an existing run. If another installation opened it, whatever is less safe than usual must
    be given again: the folder and its config.toml may come from another person."""
    opened, settings = read_state(paths.root).opened, recorded_settings(paths.root)
    if is_signed_here(opened):
        return resume_settings(settings, given, paths)
    check_task_is_given(settings, given.get("task"))
    if settings.isolation is IsolationChoice.NONE and not given.get("isolation"):
        raise UserError(
            f"{paths.root} was opened without isolation of its policies: they could do all that you can do here",
            "Add --isolation auto to play them in a jail, or --isolation none to trust them.",
        )
    if settings.engine is EngineName.RAY and not given.get("engine"):
        raise UserError(
            f"{paths.root} was played on Ray ({settings.ray_address or 'of its own'}), whose nodes are trusted",
            "Add --engine local to play here, or --engine ray to play on Ray again.",
        )
    return settings_here(paths, opened, given)


def _check_new(root: Path, given: dict[str, Any]) -> None:
    """Raise UserError unless the folder is empty or holds the beginnings of a run that a crash cut short."""
    if not given.get("task"):
        raise UserError(f"{root} holds no run", "Open one with `evopolicygym serve TASK --run FOLDER`.")
    if given.get("agent"):
        folder_names.check_agent_finds(root)
    try:
        present = [path.name for path in root.iterdir()] if root.exists() else []
    except NotADirectoryError:
        raise UserError(f"{root} is not a folder", folder_names.NEW_FOLDER) from None
    if foreign := [name for name in present if name not in NEW_ENTRIES and not name.startswith(".")]:
        raise UserError(f"{root} holds files of something else ({foreign[0]})", folder_names.NEW_FOLDER)


@contextmanager
def _started(
    paths: RunPaths,
    settings: RunSettings,
    agent_facts: dict[str, Any],
    slots: Slots | None,
    cluster: ClusterInfo | None,
) -> Iterator[OpenRun]:
    opened = read_state(paths.root).opened if has_begun(paths.root) else None
    make_key, recorded = opened is None, opened.facts["ids"]["fingerprint"] if opened else None
    task, splits = settings.played_task(make_key, recorded), settings.splits(make_key)
    if opened and read_state(paths.root).phase is RunPhase.OPEN:  # it may have been moved; later no agent sees it
        folder_names.check_path_is_neutral(paths.root, settings, task, folder_names.MOVED_REMEDY)
    context = partial(RunContext, task, splits, videos=settings.videos, feedback=settings.feedback)
    redactor = Redactor(secret_values(settings.agent) if settings.agent else {})
    with (
        _logging(paths.logs / "judge.log"),
        make_engine(settings, task, paths.checkpoints, slots, cluster) as engine,
        closing(Judge(paths, context(engine), lambda: disk_reserve.release_part(paths), redactor.text)) as judge,
    ):
        text = render(task, engine.obs_space, engine.action_space)
        run = OpenRun(paths, settings, judge, text)
        ids = run_ids(task, splits, settings)
        if judge.state.opened is None:
            _begin(run, task, ids, agent_facts)
        _check_comparable(judge.state, ids)
        run = replace(run, notice=_notice(judge.state, ids))
        judge.record(Owned(engine.level, engine.implementation, engine.nodes, ids["bit_id"], residues(engine.level)))
        engine.watch(lambda node: judge.record(Joined(node, residues(Level(node.level)))))
        _clean_up_after_crash(run)
        run.write_record()
        yield run


def _begin(run: OpenRun, task: Task, ids: dict[str, Any], agent_facts: dict[str, Any]) -> None:
    """Write settings and workspace of a new run, then the ledger's first line: without it there is no run."""
    engine, settings = run.judge.context.engine, run.settings
    config = settings.toml().encode()
    write_atomic(run.paths.config, config)
    workspace.make_workspace(run.paths, settings, run.task_text, engine.obs_space, engine.action_space)
    if settings.feedback in (FeedbackLevel.TRAJECTORY, FeedbackLevel.VIDEO):
        workspace.write_first_observation(run.judge)
    failpoint("opening")
    facts = {
        "evopolicygym": __version__,
        "task": _task_facts(task),
        "ids": ids,
        "options": {name: getattr(settings, name) for name in RECORDED_OPTIONS},
        **({"name": settings.name} if settings.name else {}),
        **agent_facts,
    }
    digest = hashlib.sha256(config).hexdigest()
    run_id = secrets.token_hex(8)
    run.judge.record(
        Opened(
            run_id,
            settings.budget,
            settings.validation_cases,
            settings.heldout_cases,
            facts,
            new_salt(),
            max_candidates=settings.max_candidates,
            settings=digest,
            signature=sign(run_id, digest),
        )
    )


def _task_facts(task: Task) -> dict[str, Any]:
    names = ("id", "env_id", "version", "title", "family", "demand", "horizon")
    facts = {name: getattr(task, name) for name in names} | {"failure_return": task.failure_return.value}
    return facts | ({"scale": scale_facts(task)} if is_novel(task.id) else {})


def run_ids(task: Task, splits: Splits, settings: RunSettings) -> dict[str, Any]:
    """Return the ids of a run, with the facts that they are hashes of. The budget, the numbers of cases, a limit on
    candidates and the conditions are part of them. A setting that an earlier version did not have is left out at its
    default, so that ids of older runs do not change."""
    names = ("budget", "validation_cases", "heldout_cases", *(("max_candidates",) if settings.max_candidates else ()))
    protocol = {name: getattr(settings, name) for name in names} | settings.conditions()
    facts = comparable_facts(task, splits.id, **protocol)
    named = asdict(ids(task, splits.id, **protocol))
    return {"splits_id": splits.id, **named, "fingerprint": facts, "machine": machine_facts()}


def _check_comparable(state: RunState, current_ids: dict[str, Any]) -> None:
    """Raise UserError if versions or cases are not those of the run: its scores would not be comparable."""
    assert state.opened is not None
    recorded = state.opened.facts["ids"]["fingerprint"]
    if changed := [name for name, value in current_ids["fingerprint"].items() if recorded.get(name) != value]:
        raise UserError(
            f"the run was opened with other {', '.join(changed)}: it cannot continue here",
            "Continue it with the versions and the sealing key that it was opened with.",
        )


def bit_id_difference(opened: dict[str, Any], played_on: str, current_ids: dict[str, Any]) -> str:
    """Return in words how this machine's bit_id differs from the one that episodes were ``played_on``. Empty if they
    are equal: then returns must be equal to the bit. ``opened`` are the ids that the run was opened with."""
    if played_on == current_ids["bit_id"]:
        return ""
    recorded = {**opened["fingerprint"], **opened.get("machine", {})} if played_on == opened["bit_id"] else {}
    current = {**current_ids["fingerprint"], **current_ids["machine"]}
    changed = [name for name in current if name in recorded and recorded[name] != current[name]]
    causes = ", ".join(changed) or "CPU, libc or Python"
    return f"the bit_id differs: {current_ids['bit_id']} here, {played_on} in the run (other {causes})"


def _notice(state: RunState, current_ids: dict[str, Any]) -> str:
    assert state.opened is not None
    opened = state.opened.facts["ids"]
    difference = bit_id_difference(opened, opened["bit_id"], current_ids)
    return f"{difference}: returns may differ in their last bits from those played before" if difference else ""


def _clean_up_after_crash(run: OpenRun) -> None:
    """Delete staged files, deliver feedback of verdicts that was not delivered, close a run that was over."""
    sweep(run.paths.feedback)
    sweep(run.paths.checkpoints)
    for submitted in run.judge.state.submissions.values():
        if submitted.judged:
            submission.deliver(run.judge, submitted)
    submission.close_if_over(run.judge)


@contextmanager
def make_engine(
    settings: RunSettings, task: Task, store: Path, slots: Slots | None = None, cluster: ClusterInfo | None = None
) -> Iterator[Engine]:
    """Start the engine that plays the run's episodes. ``slots`` are given if runs share them, and with Ray the
    ``cluster`` that they belong to."""
    with_video = settings.videos is not Videos.NONE
    levels, stock = settings.isolation.levels(), settings.stock
    if settings.engine is EngineName.LOCAL:
        with LocalEngine(task, settings.jobs, levels, store, with_video, stock, slots) as engine:
            yield engine
    elif slots and cluster:
        with RayEngine(task, cluster, slots, levels, store, with_video, stock) as remote:
            yield remote
    else:
        with ray_engine(task, settings.jobs, settings.ray_address, levels, store, with_video, stock) as own_cluster:
            yield own_cluster


@contextmanager
def _logging(path: Path) -> Iterator[None]:
    """Write the log of the judge, with a few lines of its libraries, to a file."""
    logging.raiseExceptions = False  # on a full disk every line would become a traceback on the terminal
    with closing(_LogFile(path)) as handler:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logging.getLogger("evopolicygym").setLevel(logging.INFO)
        with (
            _attached(handler, "evopolicygym"),
            _attached(_FirstRecords(handler), "uvicorn"),
            _attached(_FirstRecords(handler), "asyncio"),
        ):
            yield


@contextmanager
def _attached(handler: logging.Handler, name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _LogFile(logging.FileHandler):
    """A log file that loses lines on a full disk, and raises nothing when it is closed."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _FirstRecords(logging.Handler):
    """Forwards the first records of a library: an agent that provokes many of them must not fill the disk."""

    def __init__(self, log: logging.Handler) -> None:
        super().__init__()
        self._log, self._remaining = log, LIBRARY_RECORDS

    def emit(self, record: logging.LogRecord) -> None:
        if self._remaining > 0:
            self._remaining -= 1
            self._log.handle(record)
