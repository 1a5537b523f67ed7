"""Tasks from TOML files: the sixteen that ship, and anybody's own."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file
from evopolicygym.tasks.task import Task

CORE16 = "core16"
CORE16_ORDER = (
    "acrobot", "mountain-car-continuous", "bipedal-walker", "car-racing",
    "reacher", "half-cheetah", "ant", "pusher",
    "door-key", "key-corridor", "four-rooms", "obstructed-maze",
    "parking", "roundabout", "fetch-push", "fetch-pick-and-place",
)  # fmt: skip


@cache
def core16() -> dict[str, Task]:
    """The collection, by task id, in the paper's order."""
    folder = resources.files("evopolicygym.tasks") / CORE16
    tasks = [parse((folder / f"{slug}.toml").read_text(), f"{CORE16}/{slug}") for slug in CORE16_ORDER]
    return {task.id: task for task in tasks}


def from_file(path: Path) -> Task:
    """A task of the user's own: the same file format as the shipped ones (see docs/tasks.md)."""
    try:
        return parse(read_text_file(path), path.stem, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the task file {path}: {error}") from error


def parse(text: str, task_id: str, where: str = "") -> Task:
    """``where`` is the file's name, for complaints."""
    try:
        data: dict[str, Any] = tomllib.loads(text)
        _refuse_unknown_keys(data)
        _refuse_dates(data.get("env_options"))
        return msgspec.convert({"id": task_id, **data}, Task)
    except (ValueError, RecursionError) as error:  # of TOML, of its numbers, or of its shape
        raise UserError(
            f"the task file {where or f'of {task_id}'} is not valid: {error}",
            "`evopolicygym docs tasks` lists its keys.",
        ) from error


def _refuse_unknown_keys(data: dict[str, Any]) -> None:
    known = set(Task.__dataclass_fields__) - {"id"}
    if unknown := sorted(set(data) - known):
        raise msgspec.ValidationError(f"unknown keys {unknown}; known are {sorted(known)}")


def _refuse_dates(options: Any) -> None:
    """They would reach the environment as text, and no id can hold them."""
    try:
        json.dumps(options)
    except TypeError as error:
        raise msgspec.ValidationError(f"env_options: {error}") from error
