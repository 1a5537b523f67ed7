"""Features of observations and actions of controls, with the same bits as `policies.features` gives a submitted policy.

What follows from the space alone is computed once. That took more time than a step of a MiniGrid environment, and a
tenth of the time of a MuJoCo one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from evopolicygym.agents.builtin.evaluator import normalisation
from evopolicygym.agents.builtin.policies.actor import Vector
from evopolicygym.agents.builtin.policies.features import FINE, action_maker, entries, has_goals

FeatureWriter = Callable[[Any, Vector], None]


def feature_count(space: dict[str, Any]) -> int:
    """Return the number of features of an observation."""
    return len(normalisation(space, FINE)[0])


def feature_writer(space: dict[str, Any]) -> FeatureWriter:
    """Return what writes the features of an observation into a row of ``feature_count`` numbers."""
    match space["type"]:
        case "Box" if np.prod(space["shape"]) <= FINE.largest:
            return _write_flat if len(space["shape"]) == 1 else _write_array
        case "Discrete" if space["n"] <= FINE.largest:
            return partial(_write_choice, space["start"])
        case "Dict" if not has_goals(space):
            return partial(_write_parts, _parts(space["spaces"]))
        case "Dict" if all(_is_flat(space["spaces"][goal]) for goal in ("achieved_goal", "desired_goal")):
            parts = _parts(space["spaces"])
            columns = {key: part for key, part, _ in parts}
            error = slice(parts[-1][1].stop, None)
            return partial(_write_goals, parts, columns["achieved_goal"], columns["desired_goal"], error)
    return partial(_write_entries, space)


def actions_maker(space: dict[str, Any]) -> Callable[[Vector], Sequence[Any]]:
    """Return what makes an action of each row of controls."""
    make = action_maker(space)
    if space["type"] == "Box":
        return make
    if space["type"] == "Discrete":
        start = int(space["start"])
        return lambda controls: [start + choice for choice in controls.argmax(axis=1).tolist()]
    return lambda controls: [make(row) for row in controls]


Parts = list[tuple[str, slice, FeatureWriter]]


def _parts(spaces: dict[str, Any]) -> Parts:
    """Return the columns and the writer of each space of a Dict that has features."""
    parts, start = [], 0
    for key, child in spaces.items():
        if count := feature_count(child):
            parts.append((key, slice(start, start + count), feature_writer(child)))
            start += count
    return parts


def _is_flat(space: dict[str, Any]) -> bool:
    return bool(space["type"] == "Box" and len(space["shape"]) == 1 and space["shape"][0] <= FINE.largest)


def _write_flat(observation: Any, row: Vector) -> None:
    row[:] = observation


def _write_array(observation: Any, row: Vector) -> None:
    row[:] = np.ravel(observation)


def _write_choice(start: int, observation: Any, row: Vector) -> None:
    row[:] = 0.0
    row[int(observation) - start] = 1.0


def _write_parts(parts: Parts, observation: Any, row: Vector) -> None:
    for key, columns, write in parts:
        write(observation[key], row[columns])


def _write_goals(parts: Parts, achieved: slice, desired: slice, error: slice, observation: Any, row: Vector) -> None:
    _write_parts(parts, observation, row)
    np.subtract(row[achieved], row[desired], out=row[error])


def _write_entries(space: dict[str, Any], observation: Any, row: Vector) -> None:
    row[:] = entries(space, observation, FINE)
