"""Child process of the code reader: reads the source of one checkpoint and prints facts about it as JSON.

Parsing runs no agent code, but hostile source can make a parser use up memory or time, or overflow its stack. The child
limits itself first, so that only the child dies of it. Standard library only.

Trees are written as text that is the same on every Python; ``ast.dump`` is not used, as its output differs between
versions. Nothing here recurses, because an agent chooses the depth of a tree. docs/diagnostics.md states how the
structure of code is counted.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from evopolicygym.analysis.edits.bundle import Bundle, SourceFile, read_bundle
from evopolicygym.sandbox.limited_process import limit

MIB: Final = 1 << 20
CPU_S: Final = 30
MAX_UNRESOLVED: Final = 100


def main(folder: str) -> None:
    limit(CPU_S, 2048 * MIB)
    gc.disable()  # large trees are kept to the end: garbage collection would double the time
    print(json.dumps(read_code(Path(folder))))


def read_code(folder: Path) -> dict[str, Any]:
    """Return the fields of ``run_record.Code``."""
    bundle = read_bundle(folder)
    trees = [file.tree for file in bundle.files if file.tree]
    errors = [file.error for file in bundle.files if file.error]
    return {
        "bundle": [file.path for file in bundle.files],
        "bundle_hash": bundle.hash,
        "tree": _hash(bundle, numbers=True),
        "topology": _hash(bundle, numbers=False),
        "unresolved": list(bundle.unresolved[:MAX_UNRESOLVED]),
        "error": next(iter(errors), None if bundle.files else "there is no policy.py"),
        "lines": sum(file.lines for file in bundle.files),
        **asdict(total(map(measure, trees))),
    }


def _hash(bundle: Bundle, numbers: bool) -> str | None:
    return joined_hash(source_text(file, numbers) for file in bundle.files) if bundle.files else None


def source_text(file: SourceFile, numbers: bool) -> str:
    """Return the text of a file's tree. A file that does not parse is represented by its digest."""
    return f"bytes {file.digest}" if file.tree is None else tree_text(file.tree, numbers)


NUMBER: Final = "#"
SIGNS: Final = (ast.UAdd, ast.USub)
DOCUMENTED: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def tree_text(tree: ast.Module, numbers: bool) -> str:
    """Write a tree without docstrings, comments, formatting; numbers in full, or each as one token with its signs."""
    return "".join(_tokens(tree, numbers))


def joined_hash(parts: Iterable[str]) -> str:
    """Hash texts in their order. Each is hashed first, so that two different lists never give the same bytes."""
    digests = (hashlib.sha256(part.encode()).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _tokens(tree: ast.Module, numbers: bool) -> Iterator[str]:
    """Yield the text depth first. A string on the stack is written as it is."""
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, ast.AST) and not numbers and _is_number(item):
            yield NUMBER
        elif isinstance(item, ast.Constant):
            yield _constant(item.value)
        elif isinstance(item, ast.AST):
            stack.append(")")
            stack.extend(_fields(item))
            stack.append(f"{type(item).__name__}(")
        else:  # None in a list: `**more` in a dict has no key
            yield "-"


def _fields(node: ast.AST) -> list[object]:
    """Return what to write of a node, last first. Absent and empty fields are left out: versions of Python differ."""
    parts: list[object] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if name == "ctx" or value is None:  # the context follows from the position of the node
            continue
        if isinstance(value, list):
            items = _items(node, name, value)
            if items:
                parts += [f"{name}=[", *(part for item in items for part in (_item(item), ",")), "]"]
        elif name != "format_spec" or value.values:  # `f"{x:}"` is `f"{x}"`
            parts += [f"{name}=", _item(value), ";"]
    return parts[::-1]


def _item(value: object) -> object:
    """Return nodes and None as they are, to be written later; names, flags and levels as text."""
    return value if value is None or isinstance(value, ast.AST) else _constant(value)


def _items(node: ast.AST, name: str, values: list[object]) -> list[object]:
    if name == "body" and isinstance(node, DOCUMENTED) and values and _is_text(values[0]):
        return values[1:]
    return [value for value in values if not _is_empty_text(value)] if isinstance(node, ast.JoinedStr) else values


def _is_text(statement: object) -> bool:
    """Return whether a statement is a text: a docstring, if it stands first."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_empty_text(part: object) -> bool:
    """Return whether a part of an f-string is empty; only Python 3.12 writes those."""
    return isinstance(part, ast.Constant) and part.value == ""


def _is_number(node: ast.AST) -> bool:
    """Return whether a node is an int, float or complex literal, with any signs before it."""
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, SIGNS):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)


def _constant(value: object) -> str:
    """Write a constant. Hexadecimal digits are exact and have no limit on the length of an integer; ``ascii`` is used
    because ``repr`` of a text depends on the Unicode tables of the Python."""
    match value:
        case bool():
            return str(value)
        case int():
            return f"int:{value:x}"
        case float():
            return f"float:{value.hex()}"
        case complex():
            return f"complex:{value.real.hex()},{value.imag.hex()}"
        case _:
            return ascii(value)


FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES: Final = (ast.If, ast.IfExp, ast.match_case, ast.ExceptHandler)
LEAVES: Final = (ast.Constant, ast.Name, ast.expr_context, ast.operator, ast.cmpop)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
CONTROL: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)


@dataclass(frozen=True)
class Structure:
    """Counts of a syntax tree."""

    functions: int = 0
    branches: int = 0
    loops: int = 0
    depth: int = 0
    state: int = 0


def total(structures: Iterable[Structure]) -> Structure:
    """Add up the structure of several files; depth is the maximum."""
    listed = list(structures)
    return Structure(
        functions=sum(structure.functions for structure in listed),
        branches=sum(structure.branches for structure in listed),
        loops=sum(structure.loops for structure in listed),
        depth=max((structure.depth for structure in listed), default=0),
        state=sum(structure.state for structure in listed),
    )


def measure(tree: ast.Module) -> Structure:
    """Count the structure of a tree."""
    count = _Count()
    waiting = [_NodeInContext(tree)]
    while waiting:
        visited = waiting.pop()
        count.add(visited)
        waiting += _children(visited)
    return count.structure()


class _NodeInContext(NamedTuple):
    """A node with its depth of control flow (None outside of functions) and the class around it."""

    node: ast.AST
    depth: int | None = None
    owner: ast.ClassDef | None = None
    is_elif: bool = False


@dataclass(slots=True)
class _Count:
    functions: int = 0
    branches: int = 0
    loops: int = 0
    depth: int = 0
    attributes: set[tuple[int, str]] = field(default_factory=set)

    def add(self, visited: _NodeInContext) -> None:
        node = visited.node
        self.functions += isinstance(node, FUNCTIONS)
        self.branches += isinstance(node, BRANCHES)
        self.loops += isinstance(node, LOOPS)
        self.depth = max(self.depth, _depth_inside(visited) or 0)
        if isinstance(node, ast.Attribute) and visited.owner and _is_state(node):
            self.attributes.add((id(visited.owner), node.attr))

    def structure(self) -> Structure:
        return Structure(self.functions, self.branches, self.loops, self.depth, len(self.attributes))


def _is_state(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _depth_inside(visited: _NodeInContext) -> int | None:
    """Return the depth inside a node. A function starts at 0, a class has none, an elif is as deep as its if."""
    if isinstance(visited.node, FUNCTIONS):
        return 0
    if isinstance(visited.node, ast.ClassDef) or visited.depth is None:
        return None
    return visited.depth + (isinstance(visited.node, CONTROL) and not visited.is_elif)


def _children(visited: _NodeInContext) -> list[_NodeInContext]:
    node, depth = visited.node, _depth_inside(visited)
    owner = node if isinstance(node, ast.ClassDef) else visited.owner
    alternative = node.orelse if isinstance(node, ast.If) else []
    is_elif = len(alternative) == 1 and isinstance(alternative[0], ast.If)
    return [
        _NodeInContext(child, depth, owner, is_elif and child is alternative[0])
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, LEAVES)
    ]
