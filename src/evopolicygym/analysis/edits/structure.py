"""Structure: how much there is in a syntax tree. The counting rules are ours; docs/diagnostics.md states them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
