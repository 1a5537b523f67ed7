"""The view of a task that a policy gets, and the way back: its spaces, its observations, and the actions it returns.

Most tasks are shown as they are, without a translation. At the blind text the keys of Dict spaces get names without
meaning, and a disguised task is shown through its disguise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from evopolicygym.errors import UserError
from evopolicygym.tasks.conditions import Variant
from evopolicygym.tasks.disguise import Disguise
from evopolicygym.tasks.spaces import Schema
from evopolicygym.tasks.task import Task

Convert = Callable[[Any], Any]


class Translation(Protocol):
    """Shows observations and understands actions. The spaces are the visible ones."""

    obs_space: Schema
    action_space: Schema

    def observation(self, native: Any) -> Any:
        """Return what a policy sees. Raises ValueError or LookupError if it does not fit the task's own space."""

    def action(self, visible: Any) -> Any:
        """Return what the environment does."""


def translation_of(task: Task, observation: Schema, action: Schema) -> Translation | None:
    """Return the translation of a task with these spaces of its own; None if it is shown as it is."""
    if task.view.variant is Variant.DISGUISED:
        try:
            return Disguise(task.view.key, observation, action, task.disguise)
        except ValueError as error:
            raise UserError(f"the table [disguise] of {task.id} is wrong: {error}") from error
    if task.view.is_blind and (_has_keys(observation) or _has_keys(action)):
        return RenamedKeys(observation, action)
    return None


class RenamedKeys:
    """The task as it is, except that the keys of Dict spaces are ``x0``, ``x1`` and so on."""

    def __init__(self, observation: Schema, action: Schema) -> None:
        self.obs_space, self._show, _ = _renamed(observation)
        self.action_space, _, self._understand = _renamed(action)

    def observation(self, native: Any) -> Any:
        return self._show(native)

    def action(self, visible: Any) -> Any:
        return self._understand(visible)


def _has_keys(schema: Schema) -> bool:
    return schema["type"] == "Dict" or (schema["type"] == "Tuple" and any(map(_has_keys, schema["spaces"])))


def _renamed(schema: Schema) -> tuple[Schema, Convert, Convert]:
    """Return the space with new keys, and the functions that rename the keys of a value there and back."""
    if not _has_keys(schema):
        return schema, _same, _same
    if schema["type"] == "Tuple":
        parts = [_renamed(child) for child in schema["spaces"]]
        spaces, show, understand = (list(column) for column in zip(*parts, strict=True))
        return {**schema, "spaces": spaces}, _each(show), _each(understand)
    children = {f"x{number}": (key, *_renamed(child)) for number, (key, child) in enumerate(schema["spaces"].items())}
    return (
        {**schema, "spaces": {new: space for new, (_, space, _, _) in children.items()}},
        lambda value: {new: show(value[old]) for new, (old, _, show, _) in children.items()},
        lambda value: {old: understand(value[new]) for new, (old, _, _, understand) in children.items()},
    )


def _each(functions: list[Convert]) -> Convert:
    return lambda values: tuple(function(value) for function, value in zip(functions, values, strict=True))


def _same(value: Any) -> Any:
    return value
