"""Taking a run over: its folder made or found, its lock held, its engine started, its judge ready to go on."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from evopolicygym import __version__
from evopolicygym.analysis.edits.code_reader import code_facts
from evopolicygym.errors import FULL, UserError
from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.execution.ray.engine import RayEngine, ray_engine
from evopolicygym.execution.slots import Slots, check_jobs
from evopolicygym.files import write_atomic
from evopolicygym.judge import submission
from evopolicygym.judge.events import Joined, Opened, Owned
from evopolicygym.judge.failpoints import failpoint
from evopolicygym.judge.judge import Judge, RunContext, Videos
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_paths import RunPaths, check_run_folder
from evopolicygym.run_record import Code
from evopolicygym.runs import disk_reserve, record, workspace
from evopolicygym.runs.agent_output import Redactor
from evopolicygym.runs.agent_setup import secret_values
from evopolicygym.runs.locks import PATIENCE_S, CaseSet, RunLock
from evopolicygym.runs.run_status import has_begun, read_state, recorded_settings
from evopolicygym.runs.settings import EngineName, IsolationChoice, RunSettings
from evopolicygym.runs.trust import check_task_is_given, is_signed_here, sign
from evopolicygym.sandbox.checkpoints import remove_tree, sweep
from evopolicygym.sandbox.policy.jail import Level, residues
from evopolicygym.tasks.contract import render
from evopolicygym.tasks.ids import comparable_facts, ids, machine_facts
from evopolicygym.tasks.registry import is_installed_task, resolve
from evopolicygym.tasks.splits import Splits, new_salt
from evopolicygym.tasks.task import Task


@contextmanager
def make_engine(
    settings: RunSettings, task: Task, store: Path, slots: Slots | None = None, cluster: ClusterInfo | None = None
) -> Iterator[Engine]:
    """``slots`` where many runs share them, and with Ray the ``cluster`` that they belong to."""
    filming = Videos(settings.video) is not Videos.NONE
    levels, stock = settings.isolation.levels(), settings.stock
    if settings.engine is EngineName.LOCAL:
        with LocalEngine(task, settings.jobs, levels, store, filming, stock, slots) as engine:
            yield engine
    elif slots and cluster:
        with RayEngine(task, cluster, slots, levels, store, filming, stock) as remote:
            yield remote
    else:
        with ray_engine(task, settings.jobs, settings.ray_address, levels, store, filming, stock) as alone:
            yield alone


LIBRARY_RECORDS: Final = 200
NO_AGENT: Final[dict[str, Any]] = {"agent": None, "agent_isolation": {"level": "none", "network": "open"}}


@dataclass(frozen=True)
class OpenRun:
    """A run in our hands. ``notice`` is what its user should know of how it goes on."""

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
        """Agents' source is read, in limited processes, when there is an outcome to explain."""
        if self.judge.state.phase is RunPhase.FINISHED:
            self._read_code()
        record.write(self.paths, self.judge.state, self.judge.ledger_head, self._code.get)
        failpoint("record-written")

    def _read_code(self) -> None:
        hashes = {one.charged.checkpoint.hash for one in self.judge.state.submissions.values()} - set(self._code)
        with ThreadPoolExecutor(self.settings.jobs) as readers:
            found = readers.map(lambda name: code_facts(self.paths.checkpoints / name), hashes)
            self._code.update(zip(hashes, found, strict=True))


@contextmanager
def open_run(
    root: Path,
    agent_facts: dict[str, Any] = NO_AGENT,
    slots: Slots | None = None,
    cluster: ClusterInfo | None = None,
    /,
    **given: Any,
) -> Iterator[OpenRun]:
    """An existing run or, when a task is given, a new one. Leaving it lets go: another process may take over. ``slots``
    and, with Ray, ``cluster`` are given if runs share them."""
    paths = RunPaths(_real(root))
    _set_link_aside(paths.workspace)
    check_run_folder(paths.root)
    is_new = not paths.root.exists()
    if not has_begun(paths.root):
        _check_new(root, given)
        _check_settings(RunSettings.make(**given))
        _make(paths)
    with RunLock(paths.root, PATIENCE_S if slots else 0.0):  # only now it cannot begin under our hands
        is_taken_up = has_begun(paths.root)
        paths.make_own()
        settings = _taken_up(paths, given) if is_taken_up else RunSettings.make(**given)
        try:
            with _started(paths, settings, agent_facts, slots, cluster) as owner:
                yield owner
        except BaseException:
            if is_new and not has_begun(paths.root):  # no engine here, for want of a package or a jail
                remove_tree(paths.root)
            raise


def _real(root: Path) -> Path:
    """Without `..`, which an agent in its cell could not follow. Of the run's folder itself no link is followed."""
    path = Path(os.path.abspath(root)) if root.name in ("", "..") else root
    return Path(os.path.realpath(path.parent), path.name)


def _set_link_aside(workspace: Path) -> None:
    """An agent without a jail can put a link in its workspace's place: the run goes on, and nobody follows it."""
    if workspace.is_symlink():
        workspace.rename(workspace.with_name(f"{workspace.name}.link-{secrets.token_hex(4)}"))
        workspace.mkdir(mode=0o755)


def _check_settings(settings: RunSettings) -> None:
    """Before there is a folder: what is refused leaves nothing behind."""
    resolve(settings.task)
    settings.splits()
    if settings.engine is EngineName.LOCAL:
        check_jobs(settings.jobs)


def _make(paths: RunPaths) -> None:
    try:
        paths.make()
    except OSError as error:
        if error.errno in FULL:
            raise
        raise UserError(f"{paths.root} cannot be made: {error.strerror}", "Name another folder with --run.") from error


def _taken_up(paths: RunPaths, given: dict[str, Any]) -> RunSettings:
    """The settings of a run that exists. What makes it less safe than usual must be given here and now: the folder may
    come from somebody else, and so does what its config.toml says."""
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
    return resume_settings(settings, given, paths)


def resume_settings(settings: RunSettings, given: dict[str, Any], paths: RunPaths) -> RunSettings:
    """The settings of a run that exists; what is asked for must not contradict them. A recorded task that is not
    installed is compared by its text: to resolve it would run code that the folder chose."""
    task = given.get("task")
    if task and is_installed_task(settings.task) and resolve(task).id == resolve(settings.task).id:
        given = given | {"task": settings.task}
    asked = {name: value for name, value in given.items() if value is not None}
    wanted = RunSettings.make(**settings.model_dump() | asked)
    if differences := settings.differences(wanted):
        lines = "\n".join(f"  {difference}" for difference in differences)
        raise UserError(f"{paths.root} holds a run with other settings:\n{lines}", "Name a new folder with --run.")
    return wanted


def _check_new(root: Path, given: dict[str, Any]) -> None:
    """Nothing there, or nothing but the beginnings of a run that a crash cut short."""
    if not given.get("task"):
        raise UserError(f"{root} holds no run", "Open one with `evopolicygym serve TASK --run FOLDER`.")
    try:
        present = [path.name for path in root.iterdir()] if root.exists() else []
    except NotADirectoryError:
        raise UserError(f"{root} is not a folder", "Name a new folder with --run.") from None
    if strange := [name for name in present if name not in _PARTS and not name.startswith(".")]:
        raise UserError(f"{root} holds other things ({strange[0]})", "Name a new folder with --run.")


_PARTS: Final = {"checkpoints", "config.toml", "feedback", "hidden", "ledger.jsonl", "logs", "workspace"}


@contextmanager
def _started(
    paths: RunPaths,
    settings: RunSettings,
    agent_facts: dict[str, Any],
    slots: Slots | None,
    cluster: ClusterInfo | None,
) -> Iterator[OpenRun]:
    task, splits = resolve(settings.task), settings.splits(make_key=not has_begun(paths.root))
    means = partial(RunContext, task, splits, videos=Videos(settings.video))
    redactor = Redactor(secret_values(settings.agent) if settings.agent else {})
    with (
        _logging(paths.logs / "judge.log"),
        make_engine(settings, task, paths.checkpoints, slots, cluster) as engine,
        closing(Judge(paths, means(engine), lambda: disk_reserve.release_part(paths), redactor.text)) as judge,
    ):
        text = render(task, engine.obs_space, engine.action_space)
        owner = OpenRun(paths, settings, judge, text)
        ids = run_ids(task, splits, settings)
        if judge.state.opened is None:
            _open(owner, task, ids, agent_facts)
        _check_comparable(judge.state, ids)
        owner = replace(owner, notice=_notice(judge.state, ids))
        judge.record(Owned(engine.level, engine.implementation, engine.nodes, ids["bit_id"], residues(engine.level)))
        engine.watch(lambda node: judge.record(Joined(node, residues(Level(node.level)))))
        _tidy(owner)
        owner.write_record()
        yield owner


def _open(owner: OpenRun, task: Task, ids: dict[str, Any], agent_facts: dict[str, Any]) -> None:
    """The ledger's first line comes last: without it there is no run."""
    engine, settings = owner.judge.context.engine, owner.settings
    config = settings.toml().encode()
    write_atomic(owner.paths.config, config)
    workspace.make_workspace(
        owner.paths, owner.task_text, engine.action_space, settings.budget, settings.video, settings.max_candidates
    )
    failpoint("opening")
    facts = {
        "evopolicygym": __version__,
        "task": _task_facts(task),
        "ids": ids,
        "options": {name: getattr(settings, name) for name in ("validate_when", "video", "stock")},
        **agent_facts,
    }
    digest = hashlib.sha256(config).hexdigest()
    run = secrets.token_hex(8)
    owner.judge.record(
        Opened(
            run,
            settings.budget,
            settings.validation_cases,
            settings.heldout_cases,
            facts,
            new_salt(),
            max_candidates=settings.max_candidates,
            settings=digest,
            signature=sign(run, digest),
        )
    )


def _task_facts(task: Task) -> dict[str, Any]:
    names = ("id", "env_id", "version", "title", "family", "demand", "horizon")
    return {name: getattr(task, name) for name in names} | {"failure_return": task.failure_return.value}


def run_ids(task: Task, splits: Splits, settings: RunSettings) -> dict[str, Any]:
    """A budget or number of cases other than the usual makes another leaderboard; so does a limit on candidates, which
    is named only where there is one: ids of runs without it are as they were before there was any."""
    names = ("budget", "validation_cases", "heldout_cases", *(("max_candidates",) if settings.max_candidates else ()))
    protocol = {name: getattr(settings, name) for name in names}
    facts = comparable_facts(task, splits.id, **protocol)
    named = asdict(ids(task, splits.id, **protocol))
    return {"splits_id": splits.id, **named, "fingerprint": facts, "machine": machine_facts()}


def _check_comparable(state: RunState, here: dict[str, Any]) -> None:
    """Scores of other versions or other cases do not belong into one run."""
    assert state.opened is not None
    recorded = state.opened.facts["ids"]["fingerprint"]
    if changed := [name for name, value in here["fingerprint"].items() if recorded.get(name) != value]:
        raise UserError(
            f"the run was opened with other {', '.join(changed)}: it cannot go on here", "Go on where it was opened."
        )


def bit_id_difference(opened: dict[str, Any], played_on: str, here: dict[str, Any]) -> str:
    """What differs where this bit_id is not the one that episodes were ``played_on``, in words; empty where bits must
    be equal. ``opened`` are the ids that the run was opened with."""
    if played_on == here["bit_id"]:
        return ""
    there = {**opened["fingerprint"], **opened.get("machine", {})} if played_on == opened["bit_id"] else {}
    now = {**here["fingerprint"], **here["machine"]}
    changed = [name for name in now if name in there and there[name] != now[name]]
    what = ", ".join(changed) or "CPU, libc or Python"
    return f"the bit_id differs: {here['bit_id']} here, {played_on} in the run (other {what})"


def _notice(state: RunState, here: dict[str, Any]) -> str:
    assert state.opened is not None
    opened = state.opened.facts["ids"]
    elsewhere = bit_id_difference(opened, opened["bit_id"], here)
    return f"{elsewhere}: returns may differ in their last bits from those that were played before" if elsewhere else ""


def _tidy(owner: OpenRun) -> None:
    """What a crash can leave: staged feedback, verdicts whose feedback was not delivered, a run that was over."""
    sweep(owner.paths.feedback)
    sweep(owner.paths.checkpoints)
    for one in owner.judge.state.submissions.values():
        if one.judged:
            submission.deliver(owner.judge, one)
    submission.close_if_over(owner.judge)


@contextmanager
def _logging(path: Path) -> Iterator[None]:
    logging.raiseExceptions = False  # on a full disk every line would become a traceback on the terminal
    with closing(_Log(path)) as handler:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logging.getLogger("evopolicygym").setLevel(logging.INFO)
        with _into(handler, "evopolicygym"), _into(_Few(handler), "uvicorn"), _into(_Few(handler), "asyncio"):
            yield


@contextmanager
def _into(handler: logging.Handler, name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Log(logging.FileHandler):
    """What a full disk has not taken is lost when it is closed, and nothing else."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Few(logging.Handler):
    """What a library says about what agents do to it: in the log, and not so often that it fills the disk."""

    def __init__(self, log: logging.Handler) -> None:
        super().__init__()
        self._log, self._left = log, LIBRARY_RECORDS

    def emit(self, record: logging.LogRecord) -> None:
        if self._left > 0:
            self._left -= 1
            self._log.handle(record)
