"""Tasks by id or file, and the check of a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.execution.conformance import RuleCheck
    from evopolicygym.tasks.novel.key_checks import KeyCheck, TaskKeys
    from evopolicygym.tasks.task import Task


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


@dataclass(frozen=True)
class TaskSummary:
    """Describe a task without making its environment, as a row of `evopolicygym task list` does.

    The key of a generated task draws its spaces, which are described so, and its ``horizon``, which is None. Spaces are
    empty for an environment that is listed by Gymnasium alone.
    """

    id: str
    env_id: str
    family: str
    demand: str
    observation: str
    action: str
    horizon: int | None
    version: int


def summarise_tasks(*, everything: bool = False) -> list[TaskSummary]:
    """Return a summary of each task of ``list_tasks``, in the same order. No task is drawn, no environment is made.

    Args:
        everything: As in ``list_tasks``.

    Raises:
        UserError: As in ``list_tasks``.

    >>> import evopolicygym
    >>> summary = evopolicygym.summarise_tasks()[0]
    >>> summary.id, summary.horizon, summary.action
    ('core16/acrobot', 500, 'Discrete(3)')
    """
    from evopolicygym.tasks.novel.generate import family_version, novel
    from evopolicygym.tasks.registry import core16, registered_horizons

    drawn_later = [
        replace(_summary(task), horizon=None, version=family_version(task.family)) for task in novel().values()
    ]
    registered = registered_horizons() if everything else {}
    others = [TaskSummary(name, name, "gymnasium", "", "", "", horizon, 1) for name, horizon in registered.items()]
    return [*map(_summary, core16().values()), *drawn_later, *others]


def _summary(task: Task) -> TaskSummary:
    return TaskSummary(
        id=task.id,
        env_id=task.env_id,
        family=task.family,
        demand=task.demand,
        observation=task.observation_space,
        action=task.action_space,
        horizon=task.horizon,
        version=task.version,
    )


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

    @property
    def summary(self) -> TaskSummary:
        """The row of the task in lists."""
        return _summary(self.task)


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


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)
