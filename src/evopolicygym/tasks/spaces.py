"""Gymnasium spaces as plain dicts (schemas), which cross every border: to policies, to agents, into records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from evopolicygym.tasks.task import Row

Schema = dict[str, Any]


def schema_of(space: Any) -> Schema:
    """``low`` and ``high`` are one number where all entries agree, else nested lists; both broadcast to ``shape``."""
    kind = type(space).__name__
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
    """One line: ``Box(6,) float32``, ``Discrete(3)``, ``Dict(direction: Discrete(4), ...)``."""
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
            return f"MultiDiscrete({schema['nvec']})"
    return f"{kind}{tuple(schema['shape'])} {schema['dtype']}"


def with_names(schema: Schema, rows: Iterable[Row]) -> Schema:
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


def json_safe(value: Any) -> Any:
    """Strict JSON has no infinities: they become "inf" and "-inf", which ``float`` reads back."""
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
    """MiniGrid's missions are a function of words from lists."""
    words = space.ordered_placeholders or []
    return len(space.mission_func(*[max(options, key=len) for options in words]))
