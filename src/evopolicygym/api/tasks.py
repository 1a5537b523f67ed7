"""Tasks by id or file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
