"""Gymnasium spaces as plain dicts (schemas), which cross every border: to policies, to agents, into records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from evopolicygym.errors import UserError
from evopolicygym.tasks.task import SpaceEntry

Schema = dict[str, Any]
Action = int | list[float]
KINDS: Final = ("Box", "Discrete", "MultiBinary", "MultiDiscrete", "Text", "MissionSpace", "Dict", "Tuple")
MISSION_LENGTH: Final = 1024  # of missions composed by rules, as in BabyAI: four instructions have about 300 letters


def schema_of(space: Any) -> Schema:
    """Return a space as a plain dict.

    ``low`` and ``high`` are one number if all entries agree, else nested lists; both broadcast to ``shape``. A class
    derived from a known kind of space counts as that kind."""
    names = [kind.__name__ for kind in type(space).__mro__]
    kind = next((name for name in names if name in KINDS), names[0])
    match kind:
        case "Box":
            bounds = {"low": _compact(space.low), "high": _compact(space.high)}
            return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case "Discrete":
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
        case "MultiBinary":
            return {"type": "MultiBinary", "shape": list(space.shape), "dtype": str(space.dtype), "n": space.n}
        case "MultiDiscrete":
            lists = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", "shape": list(space.shape), "dtype": str(space.dtype), **lists}
        case "Text":
            return {"type": "Text", "max_length": int(space.max_length)}
        case "MissionSpace":
            return {"type": "Text", "max_length": _longest_mission(space)}
        case "Dict":
            return {"type": "Dict", "spaces": {key: schema_of(child) for key, child in space.spaces.items()}}
        case "Tuple":
            return {"type": "Tuple", "spaces": [schema_of(child) for child in space.spaces]}
    raise ValueError(f"spaces of type {kind} are not supported")


def describe(schema: Mapping[str, Any]) -> str:
    """Return a schema in one line: ``Box(6,) float32``, ``Discrete(3)``, ``Dict(direction: Discrete(4), ...)``."""
    kind = schema["type"]
    match kind:
        case "Discrete":
            return f"Discrete({schema['n']})" if schema["start"] == 0 else f"Discrete({schema['n']}, {schema['start']})"
        case "Text":
            return "Text"
        case "Dict":
            return "Dict(" + ", ".join(f"{key}: {describe(child)}" for key, child in schema["spaces"].items()) + ")"
        case "Tuple":
            return "Tuple(" + ", ".join(describe(child) for child in schema["spaces"]) + ")"
        case "MultiDiscrete":
            start = f", {schema['start']}" if np.any(schema["start"]) else ""
            return f"MultiDiscrete({schema['nvec']}{start})"
    return f"{kind}{tuple(schema['shape'])} {schema['dtype']}"


def with_names(schema: Schema, rows: Iterable[SpaceEntry]) -> Schema:
    """Add ``names`` and ``units`` to every one-dimensional Box whose indices the rows cover."""
    rows = list(rows)
    if schema["type"] == "Dict":
        spaces = {
            key: with_names(child, [row for row in rows if row.key == key]) for key, child in schema["spaces"].items()
        }
        return {**schema, "spaces": spaces}
    names = [name for row in rows for name in row.all_names()]
    if schema["type"] == "Box" and schema["shape"] == [len(names)]:
        units = [row.unit for row in rows for _ in row.all_names()]
        return {**schema, "names": names, "units": units}
    return schema


def check_action(schema: Schema) -> None:
    """Raise ValueError for actions that the channel from the policy cannot carry: text has no fixed size."""
    if schema["type"] == "Text":
        raise ValueError("spaces of type Text are not supported")
    children = schema.get("spaces", ())
    for child in children.values() if isinstance(children, Mapping) else children:
        check_action(child)


def constant_actions(space: Schema) -> list[Action]:
    """Return the constant actions that are worth trying: every discrete one; for a Box the middle, each entry alone at
    its ends, all lowest, all highest."""
    if space["type"] == "Discrete":
        return list(range(space["start"], space["start"] + space["n"]))
    if space["type"] != "Box" or len(space["shape"]) != 1:
        raise UserError(
            f"there are no constant actions to try for a {space['type']} action space",
            "Anchors need a Discrete or a one-dimensional Box space.",
        )
    low, high = (_bounds(space, name) for name in ("low", "high"))
    zero = [min(max(0.0, least), most) for least, most in zip(low, high, strict=True)]
    corners = [[*zero[:i], bound[i], *zero[i + 1 :]] for i in range(len(zero)) for bound in (low, high)]
    return [zero, *corners, low, high]


def _bounds(space: Schema, name: str) -> list[float]:
    """Return a bound as a list: the schema has one number for all entries, or a list."""
    bound: Any = space[name]
    size: int = space["shape"][0]
    return [float(value) for value in bound] if isinstance(bound, list) else [float(bound)] * size


def json_safe(value: Any) -> Any:
    """Replace numbers that strict JSON does not have by text ("inf", "-inf", "nan"), which ``float`` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: json_safe(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(child) for child in value]
    return value


def _compact(bound: Any) -> Any:
    array = np.asarray(bound)
    return array.flat[0].item() if array.size and (array == array.flat[0]).all() else array.tolist()


def _longest_mission(space: Any) -> int:
    """Return the longest text of a MissionSpace. Classes derived from it may compose missions in other ways."""
    if type(space).__name__ != "MissionSpace":
        return MISSION_LENGTH
    words = space.ordered_placeholders or []
    return len(space.mission_func(*[max(options, key=len) for options in words]))
