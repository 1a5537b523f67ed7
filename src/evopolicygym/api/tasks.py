"""Tasks by id or file, and the check of a new one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.execution.conformance import RuleCheck
    from evopolicygym.tasks.task import Task


def list_tasks() -> list[str]:
    """Return the ids of all tasks of the collections that ship, in the order of the collection.

    Any other Gymnasium id is a task too: ``load_task("LunarLander-v3")``.

    >>> import evopolicygym
    >>> "core16/acrobot" in evopolicygym.list_tasks()
    True
    """
    from evopolicygym.tasks.registry import core16

    return [task.id for task in core16().values()]


def load_task(task: str | os.PathLike[str]) -> Task:
    """Return a task by its name or from its file.

    Args:
        task: ``core16/NAME``, a Gymnasium id, ``module:Env-v0``, or the path of a task file (docs/tasks.md).

    Raises:
        UserError: There is no such task, or the file is not a task file. The message names what comes close.

    >>> import evopolicygym
    >>> task = evopolicygym.load_task("core16/acrobot")
    >>> task.env_id, task.horizon, task.failure_return.value
    ('Acrobot-v1', 500, -500.0)
    """
    from evopolicygym.tasks.registry import find_task

    return find_task(os.fspath(task))


def check_task(task: str | os.PathLike[str], *, cases: int = 2) -> list[RuleCheck]:
    """Check a task by playing it: spaces, text, determinism, horizon, and that no crash scores better than playing.

    Args:
        task: What ``load_task`` takes.
        cases: Number of train cases to play.

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
    from evopolicygym.tasks.registry import find_task

    if cases < 1:
        raise UserError(f"cases is {cases}", "At least one case must be played.")
    return conformance.check_task(find_task(os.fspath(task)), cases)
