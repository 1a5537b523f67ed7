"""Tasks by id or file, and the check of a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.execution.conformance import RuleCheck
    from evopolicygym.reference.anchors import TaskAnchors
    from evopolicygym.tasks.novel.key_checks import KeyCheck, TaskKeys
    from evopolicygym.tasks.task import Task

LEAST_CASES: Final = 8  # held-out cases of a run whose anchors are measured without being asked for


def list_tasks(*, everything: bool = False) -> list[str]:
    """Return the ids of all tasks of the collections that ship, Core16 and novel, in the order of the collection.

    Args:
        everything: Add the ids that are registered with Gymnasium here: each is a task, too, such as
            ``load_task("LunarLander-v3")``. This imports the simulators of Core16.

    Raises:
        UserError: ``everything``, and a simulator of Core16 cannot be imported.

    >>> import evopolicygym
    >>> "core16/acrobot" in evopolicygym.list_tasks()
    True
    """
    from evopolicygym.tasks.novel.generate import novel
    from evopolicygym.tasks.registry import core16, registered_horizons

    return [*core16(), *novel(), *(registered_horizons() if everything else ())]


def load_task(task: str | os.PathLike[str], *, seal_key: str | os.PathLike[str] | None = None) -> Task:
    """Return a task by its name or from its file.

    A task of the collection novel is drawn from your sealing key. The first time this takes seconds to minutes; a
    notice on standard error says so.

    Args:
        task: ``core16/NAME``, ``novel/NAME``, a Gymnasium id, ``module:Env-v0``, or the path of a task file
            (docs/tasks.md).
        seal_key: The key file that a novel task is drawn from, where it is not the default one.

    Raises:
        UserError: There is no such task, or the file is not a task file. The message names what comes close.

    >>> import evopolicygym
    >>> task = evopolicygym.load_task("core16/acrobot")
    >>> task.env_id, task.horizon, task.failure_return.value
    ('Acrobot-v1', 500, -500.0)
    """
    from evopolicygym.runs.settings import RunSettings

    return RunSettings.make(task=os.fspath(task), seal_key=_path(seal_key)).played_task()


@dataclass(frozen=True)
class TaskDescription:
    """A task as an agent reads it: its ``text``, and the spaces as data, as policies get them."""

    task: Task
    text: str
    obs_space: Mapping[str, Any]
    action_space: Mapping[str, Any]


def describe_task(
    task: str | os.PathLike[str],
    *,
    text: Literal["brief", "full", "blind"] | None = None,
    variant: Literal["plain", "disguised", "shifted"] | None = None,
    seal_key: str | os.PathLike[str] | None = None,
) -> TaskDescription:
    """Return the text of a task as an agent reads it, and its spaces.

    Args:
        task: What ``load_task`` takes.
        text, variant: The text for the agent, and the variant that it plays, as in ``run``.
        seal_key: The key file that a disguise or a novel task depends on, where it is not the default one.

    Raises:
        UserError: There is no such task, it cannot be played here, or it has no such text.

    >>> import evopolicygym
    >>> described = evopolicygym.describe_task("core16/acrobot")
    >>> described.text.splitlines()[0], described.obs_space["shape"]
    ('# core16/acrobot', [6])
    """
    from evopolicygym.runs.settings import RunSettings
    from evopolicygym.tasks import simulator
    from evopolicygym.tasks.contract import render

    settings = RunSettings.make(task=os.fspath(task), text=text, variant=variant, seal_key=_path(seal_key))
    played = settings.played_task()
    with simulator.prints_to_stderr():
        env = simulator.make(played)
        observation, action = simulator.schemas(played, env)
        env.close()
    return TaskDescription(played, render(played, observation, action), observation, action)


def check_task(
    task: str | os.PathLike[str], *, cases: int = 2, seal_key: str | os.PathLike[str] | None = None
) -> list[RuleCheck]:
    """Check a task by playing it: spaces, text, determinism, horizon, and that no crash scores better than playing.

    Args:
        task: What ``load_task`` takes.
        cases: Number of train cases to play.
        seal_key: The key file that a novel task is drawn from, where it is not the default one.

    Returns:
        One ``RuleCheck`` for each rule: ``rule``, whether it is ``ok``, and a ``detail`` in words.

    Raises:
        UserError: There is no such task, or policies cannot be isolated on this machine.

    >>> import evopolicygym
    >>> checks = evopolicygym.check_task("core16/acrobot", cases=1)
    >>> [check.rule for check in checks if not check.ok]
    []
    """
    from evopolicygym.execution import conformance

    if cases < 1:
        raise UserError(f"cases is {cases}", "At least one case must be played.")
    return conformance.check_task(load_task(task, seal_key=seal_key), cases)


@dataclass(frozen=True)
class NovelTasksReport:
    """Results of ``check_novel_tasks``. ``tasks`` has one summary of the checked keys for each task; ``unchecked`` is
    the number of keys that the time limit left out."""

    tasks: tuple[TaskKeys, ...]
    unchecked: int

    @property
    def ok(self) -> bool:
        """Whether no check of a key failed."""
        return not any(task.errors for task in self.tasks)


def check_novel_tasks(
    tasks: Sequence[str],
    *,
    keys: int,
    jobs: int = 1,
    seconds: float | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, KeyCheck], object] | None = None,
) -> NovelTasksReport:
    """Check what many public keys draw of generated tasks: how many draws are refused and why, and the returns of
    trivial policies, a search and the expert. It takes seconds to minutes for each key.

    Args:
        tasks: Ids such as ``novel/control-1``, or ``novel`` for all of them.
        keys: Number of keys of each task.
        jobs: Keys that are checked at a time, in processes that import the calling script again: guard its code by
            ``if __name__ == "__main__":``.
        seconds: Time limit; later keys stay unchecked.
        output: A JSON file. Keys that it has are not checked again, others are added to it at once.
        progress: Called after each key with the number of checked keys, their total, and the ``KeyCheck``.

    Raises:
        UserError: A task is not a generated one, or the file is not one of results.

    >>> import evopolicygym
    >>> evopolicygym.check_novel_tasks(["novel/control-1"], keys=2, seconds=0).unchecked
    2
    """
    from evopolicygym.tasks.novel.key_checks import check_keys, chosen_tasks, summarise

    chosen = chosen_tasks(tasks)
    checks, total = [], keys * len(chosen)
    for checked in check_keys(chosen, keys, jobs, seconds, _path(output)):
        checks.append(checked)
        if progress:
            progress(len(checks), total, checked)
    return NovelTasksReport(tuple(summarise(checks)), total - len(checks))


@dataclass(frozen=True)
class MeasuredAnchors:
    """Anchors of one task, and the file that keeps them."""

    task: str
    splits_id: str
    anchors: TaskAnchors
    file: Path

    def means(self) -> dict[str, float]:
        """Return the mean return of each trivial policy, and of the expert if there is one."""
        named = self.anchors.trivial() | ({"expert": self.anchors.expert} if self.anchors.expert else {})
        return {name: anchor.mean(self.anchors.heldout_cases) for name, anchor in named.items()}


def measure_anchors(
    task: str | os.PathLike[str],
    *,
    variant: Literal["plain", "disguised", "shifted"] | None = None,
    seeds: Literal["sealed", "paper"] = "sealed",
    seal_key: str | os.PathLike[str] | None = None,
    heldout_cases: int | None = None,
    expert: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    output: str | os.PathLike[str] | None = None,
) -> MeasuredAnchors:
    """Measure trivial policies on the held-out cases of a task, and keep them where `leaderboard` and `report` look.

    Args:
        task: What ``load_task`` takes.
        variant: ``plain`` (default) or ``shifted``. A disguised task has the anchors of the plain one.
        seeds, seal_key: The cases, as in ``run``; the key also draws the shift.
        heldout_cases: How many (default 32): at least as many as the runs have.
        expert: The folder of a policy that is measured, too. Scores of a task that has no stored scale then go from the
            random policy (0) to this one (1).
        jobs: Episodes at a time (default: one per core).
        output: A file of your own instead. It is continued: anchors of its other tasks stay.

    Raises:
        UserError: There is no such task or variant, the expert fails, or the file cannot be written.

    >>> import evopolicygym, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "anchors.json")
    >>> measured = evopolicygym.measure_anchors(
    ...     "core16/mountain-car-continuous", seeds="paper", heldout_cases=1, output=file
    ... )
    >>> measured.means()["zero"], sorted(measured.means()), file.exists()
    (0.0, ['constant', 'random', 'starter', 'zero'], True)
    """
    from evopolicygym.execution.anchors import measure
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.reference.anchors import own_anchors_path
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
    from evopolicygym.runs.settings import RunSettings
    from evopolicygym.tasks.conditions import Variant

    given = {"seeds": seeds, "seal_key": _path(seal_key), "heldout_cases": heldout_cases, "jobs": jobs}
    settings = RunSettings.make(task=os.fspath(task), variant=variant, **given)
    if settings.variant is Variant.DISGUISED:
        raise UserError(
            "a disguised task has the returns of the plain one, and so its anchors",
            "Leave --variant disguised (variant=) out.",
        )
    folder = _path(expert)
    if folder and not (folder / "policy.py").is_file():
        raise UserError(f"there is no policy.py in {folder}", "Name the folder of a policy with --expert (expert=).")
    if output is not None:
        _continued(Path(output), settings.splits().id)
    played, splits = settings.played_task(), settings.splits()
    lock = hidden_cases_lock(CaseSet(played.id, splits.id), "evopolicygym task anchors", "Ctrl-C keeps what is there.")
    with lock, LocalEngine(played, settings.jobs) as engine:
        anchors = measure(engine, played, splits, settings.heldout_cases, expert=folder)
    path = own_anchors_path(played.id, anchors.fingerprint) if output is None else Path(output)
    _keep(path, played.id, splits.id, anchors, output is not None)
    return MeasuredAnchors(played.id, splits.id, anchors, path)


def measure_missing_anchors(
    folder: str | os.PathLike[str],
    *,
    started: Callable[[str], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> MeasuredAnchors | None:
    """Measure trivial policies on the held-out cases of a finished run if none are kept that fit it, as the command
    `run` does at its end: boards get their rows. They are kept for all runs of the task on the same cases, so this
    happens once.

    Args:
        folder: The run's folder.
        started: Called with the id of the task before episodes are played.
        progress: Called with the number of finished episodes and their total.

    Returns:
        What was measured; None if nothing was missing, or the run is a trial of fewer than eight held-out cases.

    Raises:
        UserError: The folder holds no run.

    >>> import evopolicygym
    >>> evopolicygym.measure_missing_anchors("examples/runs/acrobot__starter__s0") is None
    True
    """
    from evopolicygym.analysis.anchors import NoAnchors, fitting_anchors
    from evopolicygym.execution.anchors import QUICK_REPEATS, QUICK_TRAIN_CASES, measure
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.reference.anchors import own_anchors, own_anchors_path, stored_anchors
    from evopolicygym.run_record import load
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
    from evopolicygym.runs.run_status import recorded_settings
    from evopolicygym.tasks.conditions import TextLevel, Variant
    from evopolicygym.tasks.novel.generate import is_novel

    run, settings = load(Path(folder)), recorded_settings(Path(folder))
    is_trial = run.outcome is None or run.options.heldout_cases < LEAST_CASES
    if is_trial or is_novel(run.task.id) or settings.isolation == "none":
        return None
    if not isinstance(fitting_anchors([*own_anchors(), stored_anchors()], run), NoAnchors):
        return None
    if settings.variant is Variant.DISGUISED:  # it has the anchors of the plain task
        settings = settings.model_copy(update={"variant": Variant.PLAIN, "text": TextLevel.BRIEF})
    played, splits = settings.played_task(make_key=False), settings.splits(make_key=False)
    if started:
        started(played.id)
    lock = hidden_cases_lock(CaseSet(played.id, splits.id), "anchors of a run", "Ctrl-C leaves them out.")
    with lock, LocalEngine(played, settings.jobs) as engine:
        anchors = measure(
            engine,
            played,
            splits,
            settings.heldout_cases,
            QUICK_TRAIN_CASES,
            QUICK_REPEATS,
            progress=progress or (lambda done, total: None),
        )
    path = own_anchors_path(played.id, anchors.fingerprint)
    _keep(path, played.id, splits.id, anchors, is_named=False)
    return MeasuredAnchors(played.id, splits.id, anchors, path)


def _continued(path: Path, splits_id: str) -> dict[str, TaskAnchors]:
    """Return the anchors in a file that is continued; nothing if there is none."""
    from evopolicygym.reference.anchors import load

    if not path.exists():
        return {}
    file = load(path)
    if file.splits_id != splits_id:
        raise UserError(
            f"{path} has anchors of other cases ({file.splits_id[:16]}, not {splits_id[:16]})",
            "Name another file with --output.",
        )
    return file.tasks


def _keep(path: Path, task: str, splits_id: str, anchors: TaskAnchors, is_named: bool) -> None:
    from evopolicygym.files import write_atomic
    from evopolicygym.reference.anchors import VERSION, AnchorFile, dump

    tasks = _continued(path, splits_id) if is_named else {}
    file = AnchorFile(
        schema_version=VERSION,
        command="evopolicygym task anchors",
        splits_id=splits_id,
        tasks={**tasks, task: anchors},
    )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, dump(file).encode())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "Name another file with --output.") from error


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)
