"""Names of classes in published JSON schemas. They are pinned: a class may get another name, its schema does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def publish(schema: dict[str, Any], names: Mapping[type, str]) -> dict[str, Any]:
    """Return ``schema``, as pydantic made it, with its definitions under their published names.

    Raises KeyError for a definition whose class has no published name.
    """
    published = {cls.__name__: name for cls, name in names.items()}
    definitions = {published[key]: _with_title(value, published) for key, value in schema["$defs"].items()}
    whole = _with_title(schema, published) | {"$defs": dict(sorted(definitions.items()))}
    renamed: dict[str, Any] = _rename_references(whole, published)
    return renamed


def _with_title(schema: dict[str, Any], published: Mapping[str, str]) -> dict[str, Any]:
    """A title is the name of its class, unless the class has set another."""
    return schema | {"title": published.get(schema["title"], schema["title"])} if "title" in schema else schema


def _rename_references(value: Any, published: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename_references(item, published) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: _rename_references(item, published) for key, item in value.items()}
    if isinstance(reference := value.get("$ref"), str):
        folder, _, name = reference.rpartition("/")
        renamed["$ref"] = f"{folder}/{published[name]}"
    return renamed
