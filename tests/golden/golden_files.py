"""Load, save and compare golden files: facts as they were when the files were written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def save(name: str, value: Any) -> None:
    (DATA / f"{name}.json").write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")


def differences(golden: Any, today: Any, close: tuple[str, ...] = (), path: str = "") -> Iterator[str]:
    """Return every place where two JSON values differ. 1, 1.0 and true are three values; floats are compared to the
    bit, except that those whose path matches a pattern in ``close`` may differ by a billionth."""
    if isinstance(golden, dict) and isinstance(today, dict):
        for key in {**golden, **today}:
            if key not in today or key not in golden:
                yield f"{path}/{key}: only in {'the golden file' if key in golden else 'the result of today'}"
            else:
                yield from differences(golden[key], today[key], close, f"{path}/{key}")
    elif isinstance(golden, list) and isinstance(today, list) and len(golden) == len(today):
        for number, (before, after) in enumerate(zip(golden, today, strict=True)):
            yield from differences(before, after, close, f"{path}/{number}")
    elif not _same(golden, today, _matches(path, close)):
        yield f"{path}: {golden!r} in the golden file, {today!r} today"


def _same(golden: Any, today: Any, is_close: bool) -> bool:
    if type(golden) is not type(today):
        return False
    return repr(golden) == repr(today) or (
        is_close and isinstance(golden, float) and math.isclose(golden, today, rel_tol=1e-9)
    )


def masked(value: Any, patterns: tuple[str, ...], path: str = "") -> Any:
    """Return ``value`` with types in place of everything that depends on time, machine or chance. Patterns match paths,
    such as ``/ids/bit_id``; ``*`` matches any part of a path. A table that matches keeps its keys."""
    if isinstance(value, dict):
        inner = ("*",) if _matches(path, patterns) else patterns
        return {key: masked(entry, inner, f"{path}/{key}") for key, entry in value.items()}
    if _matches(path, patterns):
        return f"<{type(value).__name__}>"
    if isinstance(value, list):
        return [masked(entry, patterns, f"{path}/{number}") for number, entry in enumerate(value)]
    return value


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def bare_schema(schema: dict[str, Any]) -> Any:
    """Return a JSON schema without class names and prose; references are replaced by what they refer to."""
    return _bare(schema, schema.get("$defs", {}))


def _bare(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_bare(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = {**definitions[node["$ref"].rpartition("/")[2]], **{k: v for k, v in node.items() if k != "$ref"}}
    kept = {key: value for key, value in node.items() if key not in ("$defs", "title", "description")}
    return {
        key: {name: _bare(entry, definitions) for name, entry in value.items()}
        if key == "properties"
        else _bare(value, definitions)
        for key, value in kept.items()
    }
