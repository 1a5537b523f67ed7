"""Published names in JSON schemas: a class may be renamed without renaming its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def publish(schema: dict[str, Any], names: Mapping[type, str]) -> dict[str, Any]:
    """Return a schema made by pydantic with its definitions under their published names.

    ``names``: the published names of classes that are called otherwise in the code.
    """
    published = {cls.__name__: name for cls, name in names.items()}
    definitions = {published.get(key, key): _with_title(value, published) for key, value in schema["$defs"].items()}
    whole = _with_title(schema, published) | {"$defs": dict(sorted(definitions.items()))}
    renamed: dict[str, Any] = _rename_references(whole, published)
    return renamed


def _with_title(schema: dict[str, Any], published: Mapping[str, str]) -> dict[str, Any]:
    """Rename the title, which is the class name unless the class sets another."""
    return schema | {"title": published.get(schema["title"], schema["title"])} if "title" in schema else schema


def _rename_references(value: Any, published: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename_references(item, published) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: _rename_references(item, published) for key, item in value.items()}
    if isinstance(reference := value.get("$ref"), str):
        folder, _, name = reference.rpartition("/")
        renamed["$ref"] = f"{folder}/{published.get(name, name)}"
    return renamed
