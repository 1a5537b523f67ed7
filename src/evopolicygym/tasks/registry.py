"""From a name to a task."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from evopolicygym.errors import UserError
from evopolicygym.tasks.files import core16, from_file
from evopolicygym.tasks.quiet import prints_to_stderr
from evopolicygym.tasks.task import Task


def resolve(name: str) -> Task:
    """A task file, a task of a collection (by its id or its Gymnasium id), or any other Gymnasium id."""
    if name.endswith(".toml"):
        return from_file(Path(name))
    known = core16() | {task.env_id: task for task in core16().values()}
    module, _, registered = name.rpartition(":")
    if (task := known.get(registered)) and module in ("", "gymnasium", *task.requires):
        return task
    if name.startswith("core16/"):
        raise _unknown(name, list(known))
    return _from_gymnasium(name, list(known))


def whole_name(name: str) -> str:
    """The name of a task as settings hold it: a task file by its whole path."""
    return str(Path(name).resolve()) if name.endswith(".toml") else name


def is_installed_task(name: str) -> bool:
    """Whether ``name`` can only mean a task of a collection or of an installed package, so that resolving it reads no
    file and imports no module that the name chooses."""
    module, _, registered = name.rpartition(":")
    known = {task.env_id: task for task in core16().values()}
    is_known = registered in known and module in ("gymnasium", *known[registered].requires)
    return not name.endswith(".toml") and (not module or is_known) and not name.startswith(":")


def _from_gymnasium(name: str, known: list[str]) -> Task:
    from evopolicygym.tasks.generic import from_gymnasium

    try:
        with prints_to_stderr():
            return from_gymnasium(name)
    except LookupError as error:
        import gymnasium

        raise _unknown(name, [*known, *gymnasium.registry]) from error


def _unknown(name: str, candidates: list[str]) -> UserError:
    slugs = {candidate.partition("/")[2]: candidate for candidate in candidates if candidate.startswith("core16/")}
    near = get_close_matches(name, [*candidates, *slugs], n=3, cutoff=0.5)
    near += get_close_matches(name.removeprefix("core16/"), list(slugs), n=2, cutoff=0.4)
    meant = list(dict.fromkeys(slugs.get(match, match) for match in near))
    hint = f"Did you mean {', '.join(meant)}? " if meant else ""
    return UserError(
        f"there is no task {name!r}",
        f"{hint}`evopolicygym task list` shows the tasks; a task file ends in .toml; an environment of your own module "
        "is written module:Env-v0.",
    )
