"""Templates of command lines, variables and files: `${name}` stands for a value of the turn.

One rule: an item that names an unknown value is omitted. So `["--resume", "${session}"]` appears when a conversation is
continued, and not when it begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from string import Template

Part = str | tuple[str, ...]
"""An item of a command line, or several that stay together."""


def names(text: str) -> set[str]:
    return set(Template(text).get_identifiers())


def is_valid(text: str) -> bool:
    return Template(text).is_valid()


def fill(text: str, values: Mapping[str, str]) -> str | None:
    return Template(text).substitute(values) if names(text) <= values.keys() else None


def fill_parts(parts: Iterable[Part], values: Mapping[str, str]) -> tuple[str, ...]:
    filled: list[str] = []
    for part in parts:
        items = [fill(item, values) for item in ((part,) if isinstance(part, str) else part)]
        if None not in items:
            filled += [item for item in items if item is not None]
    return tuple(filled)


def fill_table(table: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    filled = {name: fill(text, values) for name, text in table.items()}
    return {name: text for name, text in filled.items() if text is not None}


def json_safe(values: Mapping[str, str]) -> dict[str, str]:
    """Escape values for use between the quotes of JSON or of TOML's basic strings."""
    return {name: json.dumps(value)[1:-1] for name, value in values.items()}
