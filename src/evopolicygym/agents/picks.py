"""Where in a client's events something stands.

A path is dotted (`usage.input_tokens`); `*` is every entry of a list or table on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

Scalar = str | int | bool
LONGEST_TEXT: Final = 20_000  # characters kept of a text's beginning, and of its end


def values(event: Any, path: str) -> list[Any]:
    """All that the path leads to; nothing where it does not exist, or is null."""
    found = [event]
    for step in path.split(".") if path else ():
        found = [entry for value in found for entry in _entries(value, step)]
    return [value for value in found if value is not None]


def _entries(value: Any, step: str) -> Iterator[Any]:
    if step == "*":
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(value, dict) and step in value:
        yield value[step]


def matches(event: Any, where: Mapping[str, Scalar]) -> bool:
    return all(any(_same(value, wanted) for value in values(event, path)) for path, wanted in where.items())


def _same(value: Any, wanted: Scalar) -> bool:
    return type(value) is type(wanted) and bool(value == wanted)


def text_at(event: Any, path: str) -> str:
    """Whatever stands there, as one text; of a long one the beginning and the end."""
    text = "\n".join(value if isinstance(value, str) else _written(value) for value in values(event, path))
    return text if len(text) <= 2 * LONGEST_TEXT else text[:LONGEST_TEXT] + text[-LONGEST_TEXT:]


def _written(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return ""


def parse(line: str) -> Any:
    """A JSON object, or None: clients print other lines as well."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
    return event if isinstance(event, dict) else None
