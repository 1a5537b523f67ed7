"""From a name to a task."""

from __future__ import annotations

import importlib.util
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


def check_own_task(name: str, root: Path) -> None:
    """Refuse a task of a run in ``root`` whose file or module lies in the run's own folder: a run that came from
    elsewhere must not bring code along. A module is looked for without importing it."""
    folder = root.resolve()
    if name.endswith(".toml"):
        if Path(name).resolve().is_relative_to(folder):
            raise _brought_along(name, folder)
        name = _environment_of(name)
    module = name.rpartition(":")[0].partition(".")[0]
    if module and any(Path(place).resolve().is_relative_to(folder) for place in _places(module)):
        raise _brought_along(module, folder)


def _environment_of(name: str) -> str:
    """Nothing that a file holds is shown: the run chose the file, and it may be one of the reader's."""
    try:
        return from_file(Path(name)).env_id
    except UserError:
        raise UserError(
            f"the task of this run is the file {name}, and that is not a task file here",
            "Put the task file of the run where it was when the run was opened; `evopolicygym task check` looks at it.",
        ) from None


def _places(module: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return []
    return [] if spec is None else [place for place in (spec.origin, *(spec.submodule_search_locations or ())) if place]


def _brought_along(what: str, folder: Path) -> UserError:
    return UserError(
        f"the task of this run, {what}, lies in the run's own folder {folder}, and is not used from there",
        "Nothing was imported. Install the task where you trust it, outside of the run folder.",
    )


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
