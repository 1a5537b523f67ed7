"""Which modules a file imports, as far as reading it tells: wherever the statement stands, and by literal name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

Module = tuple[str, ...]
RELEVANT: Final = (ast.Import, ast.ImportFrom, ast.Call)
BY_NAME: Final = frozenset({"import_module", "__import__"})
BY_PATH: Final = frozenset({"spec_from_file_location", "run_path", "run_module"})


@dataclass(frozen=True)
class Imports:
    """``modules`` as absolute names, submodules of a package among them where they might be meant (`from a import b`
    names a and a.b). ``unresolved``: calls whose module is known only when they run, as ``line: function``."""

    modules: tuple[Module, ...]
    unresolved: tuple[str, ...]


def imports_of(tree: ast.Module, package: Module) -> Imports:
    """``package`` is where relative imports start; empty for files beside policy.py, where they cannot work."""
    modules: list[Module] = []
    unresolved: list[tuple[int, str]] = []
    nodes = [node for node in ast.walk(tree) if isinstance(node, RELEVANT)]
    by_name = BY_NAME | _other_names(nodes)
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += _from(node, package)
        elif isinstance(node, ast.Call) and (name := _called(node)) in by_name | BY_PATH:
            found = _literal(node, package) if name in by_name else None
            if found is None:
                unresolved.append((node.lineno, f"{node.lineno}: {name}"))
            else:
                modules.append(found)
    return Imports(tuple(modules), tuple(text for _, text in sorted(unresolved)))


def _other_names(nodes: Iterable[ast.AST]) -> set[str]:
    """What `from importlib import import_module as load` makes of it."""
    aliases = (alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    return {alias.asname for alias in aliases if alias.name in BY_NAME and alias.asname}


def _from(node: ast.ImportFrom, package: Module) -> Iterator[Module]:
    base = _absolute(node.level, node.module or "", package)
    if base is not None:
        yield base
        yield from ((*base, alias.name) for alias in node.names)


def _absolute(level: int, name: str, package: Module) -> Module | None:
    """None when the dots lead out of the folder, as they do in a file that is in no package."""
    own = tuple(name.split(".")) if name else ()
    if level == 0:
        return own
    return (*package[: len(package) - level + 1], *own) if level <= len(package) else None


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _literal(node: ast.Call, package: Module) -> Module | None:
    """The module that a call names in so many words."""
    name = _text(_argument(node, 0, "name"))
    if not name:
        return None
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    return _absolute(level, relative, _package_argument(node, package) if level else package)


def _package_argument(node: ast.Call, package: Module) -> Module:
    """`import_module(".x", "pkg")`; `__package__` and `__name__` are where the file is."""
    given = _argument(node, 1, "package")
    if isinstance(given, ast.Name) and given.id in ("__package__", "__name__"):
        return package
    text = _text(given)
    return tuple(text.split(".")) if text else ()


def _argument(node: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(node.args) > position:
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
