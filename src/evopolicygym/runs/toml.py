"""Settings as TOML, written for people: plain values first, then the tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def text(values: Mapping[str, Any], comment: str) -> str:
    return "\n".join([f"# {comment}", *_table(values, "")]) + "\n"


def _table(values: Mapping[str, Any], path: str) -> Iterator[str]:
    """TOML writes numbers, booleans, lists and strings as JSON does. A table without values of its own is not named."""
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    if path and plain:
        yield from ("", f"[{path}]")
    yield from (f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}" for name, value in plain.items())
    for name, table in tables.items():
        yield from _table(table, f"{path}.{_key(name)}" if path else _key(name))


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
