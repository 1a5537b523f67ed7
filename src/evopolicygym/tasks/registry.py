"""Finding a task by name: the sixteen of Core16, task files, and any other Gymnasium environment, whose facts come from
the live environment and whose text is generated from them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from evopolicygym.config import parse_toml
from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file, real_path
from evopolicygym.tasks import simulator
from evopolicygym.tasks.novel.generate import novel
from evopolicygym.tasks.spaces import describe
from evopolicygym.tasks.task import FailureReturn, Task

CORE16 = "core16"
CORE16_ORDER = (
    "acrobot", "mountain-car-continuous", "bipedal-walker", "car-racing",
    "reacher", "half-cheetah", "ant", "pusher",
    "door-key", "key-corridor", "four-rooms", "obstructed-maze",
    "parking", "roundabout", "fetch-push", "fetch-pick-and-place",
)  # fmt: skip

NO_DERIVATION: Final = "The task file gives no reason for this number."
# Collection to a suite file that plays all its tasks, and one of them as an example.
COLLECTIONS: Final = {
    CORE16: ("suites/core16-128.toml", "core16/acrobot"),
    "novel": ("suites/novel16.toml", "novel/rules-2"),
}
DEFAULT_HORIZON: Final = 1000
UNKNOWN_FAILURE: Final = FailureReturn(
    -1e6,
    "The rewards of this environment are not known, so this is a number below any plausible return. A task file can "
    "declare a tighter one (`evopolicygym docs tasks`).",
)
# Packages that register environments only when they are imported.
REGISTERING: Final = ("minigrid", "highway_env", "gymnasium_robotics")
# Namespace of environment ids to the modules that it needs.
NAMESPACES: Final = {"ALE": ("ale_py",)}
# Module of an environment to the simulators whose versions can change its scores.
SIMULATORS: Final = {
    "gymnasium.envs.box2d": ("Box2D", "pygame"),
    "gymnasium.envs.mujoco": ("mujoco",),
    "gymnasium_robotics": ("mujoco",),
}


@cache
def core16() -> dict[str, Task]:
    """Return the Core16 collection by task id, in the paper's order."""
    folder = resources.files("evopolicygym.tasks") / CORE16
    tasks = [parse_task((folder / f"{slug}.toml").read_text(), f"{CORE16}/{slug}") for slug in CORE16_ORDER]
    return {task.id: task for task in tasks}


def registered_horizons() -> dict[str, int | None]:
    """Return the horizons of the other environments that are registered with Gymnasium, by id. The simulators of Core16
    are imported first: some register theirs only then."""
    import gymnasium

    for task in core16().values():
        simulator.make(task).close()
    core16_env_ids = {task.env_id for task in core16().values()}
    specs = [spec for spec in gymnasium.registry.values() if spec.id not in core16_env_ids]
    return {spec.id: spec.max_episode_steps for spec in specs}


def load_task_file(path: Path) -> Task:
    """Read a task file, which has the same format as the shipped ones (see docs/tasks.md)."""
    try:
        return parse_task(read_text_file(path), path.stem, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the task file {path}: {error}") from error


def parse_task(text: str, task_id: str, where: str = "") -> Task:
    """Return the task of a TOML text. ``where`` is the file's name, for error messages."""
    try:
        data: dict[str, Any] = parse_toml(text, infinite="env_options")  # a bound that does not bind
        if isinstance(value := data.get("failure_return"), int | float) and not isinstance(value, bool):
            data["failure_return"] = {"value": value, "derivation": NO_DERIVATION}
        _check_table(data, Task)
        _refuse_dates(data.get("env_options"))
        _check_bounds(data.get("shift"))
        return msgspec.convert({"id": task_id, **data}, Task)
    except (ValueError, RecursionError) as error:  # invalid TOML, an invalid number, the wrong shape or depth
        page = "`evopolicygym docs shifted` explains shifts." if "shift" in str(error) else ""
        raise UserError(
            f"the task file {where or f'of {task_id}'} is not valid: {error}",
            page or "`evopolicygym docs tasks` lists its keys.",
        ) from error


def _check_table(data: Any, shape: type[Any], where: str = "") -> None:
    """Refuse unknown keys and unknown words in a table and those below it; msgspec would ignore the former."""
    if not isinstance(data, dict):
        return  # msgspec reports the wrong type
    types = _type_hints(shape)  # type: ignore[arg-type]  # to mypy a class is not hashable
    hints = {name: hint for name, hint in types.items() if where or name not in ("id", "view")}
    for key, value in data.items():
        if key not in hints:
            near = get_close_matches(key, list(hints), n=1, cutoff=0.5)
            suggestion = f"did you mean {near[0]}?" if near else f"the known ones are {sorted(hints)}"
            raise msgspec.ValidationError(f"unknown key {where}{key}; {suggestion}")
        for path, item, hint in _below(f"{where}{key}", value, hints[key]):
            words = list(get_args(hint)) if get_origin(hint) is Literal else _enum_values(hint)
            if words and item not in words:
                raise msgspec.ValidationError(f"{path} is {item!r}; it can be {', '.join(map(repr, words))}")
            if is_dataclass(hint):
                _check_table(item, hint, f"{path}.")  # type: ignore[arg-type]


@cache
def _type_hints(shape: Hashable) -> dict[str, Any]:
    return get_type_hints(shape)


def _below(path: str, value: Any, hint: Any) -> list[tuple[str, Any, Any]]:
    """Return a value, or each entry of a list or a table of words, with its place in the file and its type."""
    inner = [kind for kind in get_args(hint) if kind not in (NoneType, Ellipsis)]
    if get_origin(hint) is tuple and isinstance(value, list):
        return [(f"{path}[{number}]", item, inner[0]) for number, item in enumerate(value)]
    if get_origin(hint) is dict and isinstance(value, dict):
        return [(f"{path}.{key}", item, inner[1]) for key, item in value.items()]
    is_optional = NoneType in get_args(hint)
    return [(path, value, inner[0] if is_optional else hint)]


def _enum_values(hint: Any) -> list[str]:
    return [member.value for member in hint] if isinstance(hint, type) and issubclass(hint, Enum) else []


def _check_bounds(shift: Any) -> None:
    """Refuse a shift that has only one of its bounds: the other would be 0."""
    for row in shift if isinstance(shift, list) else ():
        missing = [name for name in ("low", "high") if name not in row] if isinstance(row, dict) else []
        if len(missing) == 1:
            raise msgspec.ValidationError(f"shift {row.get('name', '')}: needs low and high; {missing[0]} is missing")


def _refuse_dates(options: Any) -> None:
    """Refuse dates: they would reach the environment as text, and comparable_id could not cover them."""
    try:
        json.dumps(options)
    except TypeError as error:
        raise msgspec.ValidationError(f"env_options: {error}") from error


def find_task(name: str) -> Task:
    """Return the task of a name: a task file, a Core16 task (by task id or Gymnasium id), or any other Gymnasium id."""
    if name.endswith(".toml"):
        return load_task_file(Path(name))
    tasks_by_name = core16() | novel() | {task.env_id: task for task in core16().values()}
    module, _, registered = name.rpartition(":")
    if (task := tasks_by_name.get(registered)) and module in ("", "gymnasium", *task.requires):
        return task
    if name.rstrip("/") in COLLECTIONS:
        raise _collection(name.rstrip("/"))
    if name.startswith(("core16/", "novel/")):
        raise _unknown(name, list(tasks_by_name))
    if meant := _short_names().get(name.lower()):
        raise UserError(
            f"there is no task {name!r}", f"Did you mean {meant}? `evopolicygym task list` shows the tasks."
        )
    return _find_in_gymnasium(name, list(tasks_by_name))


def _collection(name: str) -> UserError:
    suite, task = COLLECTIONS[name]
    count = len(core16() if name == CORE16 else novel())
    return UserError(
        f"{name} is a collection of {count} tasks, not a task",
        f"Name one of them, such as {task} (`evopolicygym task list` shows all), or play all of them with a suite: a "
        f'file that says `tasks = "{name}"` (`evopolicygym docs suites`); a clone has {suite}.',
    )


def absolute_name(name: str) -> str:
    """Return the name under which settings store a task: a task file by its absolute path."""
    return str(real_path(name)) if name.endswith(".toml") else name


def is_installed_task(name: str) -> bool:
    """Return whether ``name`` can only mean a task of a collection or of an installed package.

    Resolving such a name reads no file and imports no module that the name chooses."""
    module, _, registered = name.rpartition(":")
    tasks_by_env_id = {task.env_id: task for task in core16().values()}
    is_known = registered in tasks_by_env_id and module in ("gymnasium", *tasks_by_env_id[registered].requires)
    return not name.endswith(".toml") and (not module or is_known) and not name.startswith(":")


def _short_names() -> dict[str, str]:
    """Return the Core16 tasks by their slug and by their Gymnasium id without its version, in lower case. Gymnasium
    would accept the latter, but the task would not be the one of Core16."""
    slugs = {task_id.partition("/")[2]: task_id for task_id in core16()}
    return slugs | {task.env_id.rpartition("-v")[0].lower(): task_id for task_id, task in core16().items()}


def _find_in_gymnasium(name: str, core16_names: list[str]) -> Task:
    try:
        return from_gymnasium(name)
    except LookupError as error:
        import gymnasium

        raise _unknown(name, [*core16_names, *gymnasium.registry]) from error


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


def from_gymnasium(env_id: str) -> Task:
    """Return the task of a Gymnasium id. Makes the environment once, to read its spaces and horizon.

    Raises LookupError if no such environment is registered."""
    with simulator.prints_to_stderr():
        return _read_environment(env_id)


def unread_task(name: str) -> Task:
    """Return a task that has the id of ``name`` (a task file, or MODULE:ID) and nothing else that is true of it: no
    module is imported, and no file is read."""
    return _gymnasium_task(Path(name).stem if name.endswith(".toml") else name, DEFAULT_HORIZON, "", "", ())


def _read_environment(env_id: str) -> Task:
    task = _gymnasium_task(env_id, DEFAULT_HORIZON, "", "", NAMESPACES.get(env_id.partition("/")[0], ()))
    try:
        env = _make_environment(task)
    except LookupError:
        _register_known()
        env = _make_environment(task)
    try:
        observation, action = (describe(schema) for schema in simulator.schemas(task, env))
        return _gymnasium_task(env_id, _horizon(env), observation, action, _requires(env))
    finally:
        env.close()


def _register_known() -> None:
    """Import packages that register environments only on import. Missing or broken packages are skipped."""
    for module in REGISTERING:
        with suppress(Exception):
            importlib.import_module(module)


def _gymnasium_task(env_id: str, horizon: int, observation: str, action: str, requires: tuple[str, ...]) -> Task:
    return Task(
        id=env_id,
        env_id=env_id,
        title=f"{env_id} (a Gymnasium environment without a written contract)",
        family="gymnasium",
        horizon=horizon,
        observation_space=observation,
        action_space=action,
        objective="Maximise the sum of rewards of an episode.",
        reward="The environment's own reward, unchanged.",
        termination=f"When the environment says so; truncated after {horizon} steps.",
        failure_return=UNKNOWN_FAILURE,
        requires=requires,
    )


def _horizon(env: Any) -> int:
    """Return the horizon that is registered or, if there is none, the environment's ``max_steps`` if it is a number."""
    declared = (env.spec.max_episode_steps if env.spec else None, getattr(env.unwrapped, "max_steps", None))
    whole = [int(steps) for steps in declared if isinstance(steps, int | np.integer) and steps is not True]
    return next((steps for steps in whole if steps > 0), DEFAULT_HORIZON)


def _requires(env: Any) -> tuple[str, ...]:
    """Return the modules whose versions can change a score: the environment's own, and the simulators that it is
    derived from or holds."""
    modules = [kind.__module__ for kind in type(env.unwrapped).__mro__]
    own = modules[0].partition(".")[0]
    simulators = [names for prefix, names in SIMULATORS.items() if any(module.startswith(prefix) for module in modules)]
    held = {type(value).__module__.partition(".")[0] for value in getattr(env.unwrapped, "__dict__", {}).values()}
    names = [*([] if own == "gymnasium" else [own]), *chain(*simulators), *(["mujoco"] if "mujoco" in held else [])]
    return tuple(dict.fromkeys(names))


def _make_environment(task: Task) -> Any:
    """Make the environment. Raises LookupError if it is not registered, and the environment's own errors."""
    import gymnasium

    try:
        return simulator.make(task)
    except UserError as error:
        cause = error.__cause__
        if isinstance(cause, gymnasium.error.UnregisteredEnv) or type(cause) is gymnasium.error.Error:
            raise LookupError(str(cause)) from error
        raise
