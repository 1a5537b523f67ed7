"""Topology: syntax trees as text that is the same on every Python, with numbers or without.

``ast.dump`` is not used: it writes the same tree differently from version to version. Nothing here recurses, so that
the depth of a tree, which an agent chooses, is no limit of ours.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NUMBER: Final = "#"
SIGNS: Final = (ast.UAdd, ast.USub)
DOCUMENTED: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def tree_text(tree: ast.Module, numbers: bool) -> str:
    """A tree without docstrings, comments and formatting; numbers in full, or each as one token with its signs."""
    return "".join(_tokens(tree, numbers))


def joined_hash(parts: Iterable[str]) -> str:
    """Of texts in their order. Each is hashed first, so that no two lists run into the same bytes."""
    digests = (hashlib.sha256(part.encode()).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _tokens(tree: ast.Module, numbers: bool) -> Iterator[str]:
    """Depth first. On the stack a plain string is text to be written as it is."""
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
        else:  # a hole in a list: `**more` in a dict has no key
            yield "-"


def _fields(node: ast.AST) -> list[object]:
    """What to write of a node, last first. Fields that are absent or empty are not written: Pythons differ in them."""
    found: list[object] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if name == "ctx" or value is None:  # the context follows from where a node stands
            continue
        if isinstance(value, list):
            items = _items(node, name, value)
            if items:
                found += [f"{name}=[", *(part for item in items for part in (_item(item), ",")), "]"]
        elif name != "format_spec" or value.values:  # `f"{x:}"` is `f"{x}"`
            found += [f"{name}=", _item(value), ";"]
    return found[::-1]


def _item(value: object) -> object:
    """Nodes and holes are written later; names, flags and levels are plain values."""
    return value if value is None or isinstance(value, ast.AST) else _constant(value)


def _items(node: ast.AST, name: str, values: list[object]) -> list[object]:
    if name == "body" and isinstance(node, DOCUMENTED) and values and _is_text(values[0]):
        return values[1:]
    return [value for value in values if not _is_nothing(value)] if isinstance(node, ast.JoinedStr) else values


def _is_text(statement: object) -> bool:
    """A docstring, when it stands first."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_nothing(part: object) -> bool:
    """Python 3.12 puts empty texts into f-strings where others put none."""
    return isinstance(part, ast.Constant) and part.value == ""


def _is_number(node: ast.AST) -> bool:
    """An int, float or complex literal, with any signs before it."""
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, SIGNS):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)


def _constant(value: object) -> str:
    """Digits in hexadecimal: exact, and no limit on the length of an integer. ``ascii``: ``repr`` of a text depends on
    the Unicode tables of the Python."""
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
    functions: int = 0
    branches: int = 0
    loops: int = 0
    depth: int = 0
    state: int = 0


def total(structures: Iterable[Structure]) -> Structure:
    """Of several files: depth is the deepest, the rest add up."""
    listed = list(structures)
    return Structure(
        functions=sum(one.functions for one in listed),
        branches=sum(one.branches for one in listed),
        loops=sum(one.loops for one in listed),
        depth=max((one.depth for one in listed), default=0),
        state=sum(one.state for one in listed),
    )


def measure(tree: ast.Module) -> Structure:
    count = _Count()
    waiting = [_Place(tree)]
    while waiting:
        place = waiting.pop()
        count.add(place)
        waiting += _inside(place)
    return count.structure()


class _Place(NamedTuple):
    """A node, how deep in control it stands (None outside of functions), and the class around it."""

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

    def add(self, place: _Place) -> None:
        node = place.node
        self.functions += isinstance(node, FUNCTIONS)
        self.branches += isinstance(node, BRANCHES)
        self.loops += isinstance(node, LOOPS)
        self.depth = max(self.depth, _depth_inside(place) or 0)
        if isinstance(node, ast.Attribute) and place.owner and _is_state(node):
            self.attributes.add((id(place.owner), node.attr))

    def structure(self) -> Structure:
        return Structure(self.functions, self.branches, self.loops, self.depth, len(self.attributes))


def _is_state(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _depth_inside(place: _Place) -> int | None:
    """A function starts anew, a class stands outside of functions, and an elif is as deep as its if."""
    if isinstance(place.node, FUNCTIONS):
        return 0
    if isinstance(place.node, ast.ClassDef) or place.depth is None:
        return None
    return place.depth + (isinstance(place.node, CONTROL) and not place.is_elif)


def _inside(place: _Place) -> list[_Place]:
    node, depth = place.node, _depth_inside(place)
    owner = node if isinstance(node, ast.ClassDef) else place.owner
    alternative = node.orelse if isinstance(node, ast.If) else []
    is_elif = len(alternative) == 1 and isinstance(alternative[0], ast.If)
    return [
        _Place(child, depth, owner, is_elif and child is alternative[0])
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, LEAVES)
    ]
