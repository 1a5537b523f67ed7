"""Loops of a policy that search: they expand a frontier, or roll out candidates by a model.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from evopolicygym.analysis.edits.bundle import called_name
from evopolicygym.analysis.edits.simplify import every_node
from evopolicygym.analysis.edits.value_flow import SourceFunction, ValueFlow

FRONTIER: Final = frozenset({"pop", "popleft", "heappop", "get"})
PUSHING: Final = frozenset({"append", "appendleft", "heappush", "extend", "put", "insert"})
CHOOSING: Final = frozenset({"argmin", "argmax", "argsort", "argpartition", "min", "max", "sorted"})
PRODUCTS: Final = frozenset({"dot", "matmul", "einsum", "inner"})
LOOPS: Final = (ast.For, ast.While)


def nodes_in_steps(flow: ValueFlow) -> Iterator[tuple[SourceFunction, ast.AST]]:
    for function in flow.functions:
        if function.in_steps:
            yield from ((function, node) for node in every_node(function.node))


def search_loops(flow: ValueFlow) -> list[tuple[SourceFunction, ast.For | ast.While]]:
    chooses = any(_is_choice(node) for _, node in nodes_in_steps(flow))
    own = {function.node.name for function in flow.functions}
    return [
        (function, node)
        for function, node in nodes_in_steps(flow)
        if isinstance(node, LOOPS) and (_expands_frontier(node) or (chooses and _rolls_out(node, own)))
    ]


def model_nodes(flow: ValueFlow) -> set[int]:
    """Return the nodes that compute possible futures: loops of a search, and functions that are called for it."""
    loops = search_loops(flow)
    parts: list[ast.AST] = [loop if function.node.name == "act" else function.node for function, loop in loops]
    seen: set[int] = set()
    while parts:
        nodes = list(every_node(parts.pop()))
        seen |= {id(node) for node in nodes}
        called = {called_name(node) for node in nodes if isinstance(node, ast.Call)}
        parts += [
            function.node
            for function in flow.functions
            if function.node.name in called and id(function.node) not in seen
        ]
    return seen


def _is_choice(node: ast.AST) -> bool:
    match node:
        case ast.Call():
            name = called_name(node)
            keyed = any(keyword.arg == "key" for keyword in node.keywords)
            return name in CHOOSING and (name.startswith("arg") or keyed)
        case ast.If(test=ast.Compare(left=ast.Name(), comparators=[ast.Name(id=best)])):
            stored = [
                inner.id
                for inner in every_node(node)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            ]
            return best in stored
    return False


def _expands_frontier(loop: ast.For | ast.While) -> bool:
    """Return whether a loop takes from a container that it also adds to."""
    taken = {name for node in every_node(loop) for name in _containers(node, FRONTIER)}
    added = {name for node in every_node(loop) for name in _containers(node, PUSHING)}
    return isinstance(loop, ast.While) and bool(taken & added)


def _containers(node: ast.AST, methods: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Call) and called_name(node) in methods:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="heapq")), args=[ast.Name(id=name), *_]):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                yield name
            case ast.Call(func=ast.Name(), args=[ast.Name(id=name), *_]):
                yield name


def _rolls_out(loop: ast.For | ast.While, own: set[str]) -> bool:
    """Return whether a loop advances quantities from their values before, as a model does: two of them, or one by a
    function of the policy."""
    advanced = {name for node in every_node(loop) for name in _advanced(node)}
    counters = {
        node.target.id
        for node in every_node(loop)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    by_model = any(
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called_name(node.value) in own
        for node in every_node(loop)
        if any(_advanced(node))
    )
    return (by_model or len(advanced - counters) >= 2) and not _applies_layers(loop)


def _advanced(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=[target], value=value):
            read = names_in(value)
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (inner.id for inner in names if isinstance(inner, ast.Name) and inner.id in read)


def _applies_layers(loop: ast.For | ast.While) -> bool:
    """Return whether a loop multiplies by what it goes through, as over the layers of a network."""
    targets = names_in(loop.target) if isinstance(loop, ast.For) else set()
    return any(names_in(node) & targets for node in every_node(loop) if is_matrix_product(node))


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in every_node(node) if isinstance(inner, ast.Name)}


def is_matrix_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and called_name(node) in PRODUCTS
