"""Mechanisms of a policy, found by rules over its syntax, each with the line that shows it.

docs/diagnostics.md defines the mechanisms and states how the rules agree with a person. The rules follow where values
come from (value_flow.py) and look only at code that class `Policy` reaches. Standard library only: this runs in the
limited child process.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from evopolicygym.analysis.edits.bundle import Bundle, called_name
from evopolicygym.analysis.edits.search_loops import (
    is_matrix_product,
    model_nodes,
    names_in,
    nodes_in_steps,
    search_loops,
)
from evopolicygym.analysis.edits.simplify import every_node
from evopolicygym.analysis.edits.value_flow import (
    Label,
    SourceFunction,
    ValueFlow,
    value_flow,
)

FINDING: Final = frozenset({"argwhere", "nonzero", "flatnonzero", "label", "center_of_mass", "find_objects"})
MANY_NUMBERS: Final = 12


class Evidence(NamedTuple):
    """A node that shows a mechanism, and the file in which it stands."""

    file: str
    line: int


Rule = Callable[[ValueFlow], Iterator[Evidence]]


def find_mechanisms(bundle: Bundle) -> dict[str, Evidence]:
    """Return the mechanisms of a policy with the first line that shows each."""
    flow = value_flow(bundle)
    evidences = {name: next(iter(sorted(rule(flow))), None) for name, rule in RULES.items()}
    return {name: evidence for name, evidence in evidences.items() if evidence}


def _at(function: SourceFunction, node: ast.AST) -> Evidence:
    return Evidence(function.file, getattr(node, "lineno", function.node.lineno))


def _perception(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where objects are found in an image, a grid or a table: by position, by a mask, or row by row."""
    for function, node in nodes_in_steps(flow):
        match node:
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[_, _, *_])) if _has(flow, value, function, Label.RAW):
                yield _at(function, node)
            case ast.Subscript(value=ast.Subscript(value=value, slice=ast.Name()), slice=ast.Name()):
                if _has(flow, value, function, Label.RAW):
                    yield _at(function, node)
            case ast.Call(args=[argument, *_]) if called_name(node) in FINDING and _has(
                flow, argument, function, Label.OBS
            ):
                yield _at(function, node)
            case ast.For(target=ast.Name(id=name), iter=rows) if _has(flow, rows, function, Label.RAW):
                if any(_is_part_of(inner, name) for inner in every_node(node)):
                    yield _at(function, node)


def _is_part_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name


def _memory(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where an attribute is written in one step and read in a later one."""
    made_anew = {name for function in flow.functions if function.node.name == "act" for name in _set_first(function)}
    made_anew -= {
        name
        for function in flow.functions
        if function.in_steps and function.node.name != "act"
        for name in _self_attributes(function.node)
    }
    for function, node in nodes_in_steps(flow):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                if name in flow.stored_in_steps - made_anew and not _is_random(flow, name):
                    yield _at(function, node)
            case ast.Global(names=names) if names:
                yield _at(function, node)


def _set_first(function: SourceFunction) -> Iterator[str]:
    """Yield the attributes that `act` sets before anything reads them."""
    mentioned: set[str] = set()
    for statement in function.node.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                if name not in mentioned | set(_self_attributes(value)):
                    yield name
        mentioned |= set(_self_attributes(statement))


def _self_attributes(node: ast.AST) -> Iterator[str]:
    for inner in every_node(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            yield inner.attr


def _is_random(flow: ValueFlow, name: str) -> bool:
    """Return whether an attribute is a generator of random numbers, which decides nothing by itself."""
    value = flow.constants.get(name)
    return isinstance(value, ast.Call) and called_name(value) in ("default_rng", "RandomState", "Random")


def _search(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where futures are compared: a frontier is expanded, or candidates are rolled out by a model."""
    yield from (_at(function, loop) for function, loop in search_loops(flow))


def _state_estimation(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where something unobserved is inferred over steps: a difference, a filter, a map or a position."""
    returned = _returned_attributes(flow)
    for function, node in nodes_in_steps(flow):
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                observed = Label.OBS in flow.attributes.get(name, frozenset()) and name in flow.stored_in_steps
                if observed and name not in returned and _has(flow, left, function, Label.OBS):
                    yield _at(function, node)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                labels = flow.labels(value, function.node)
                if name not in returned and {Label.OBS, Label.KEPT} <= labels and _mixes(flow, function, name, value):
                    yield _at(function, node)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=key)]
            ):
                if not isinstance(key, ast.Constant) and name in flow.stored_in_steps:
                    yield _at(function, node)
            case ast.Tuple(elts=[ast.BinOp(op=ast.Add()) as first, ast.BinOp(op=ast.Add()) as second, *_]):
                if set(_self_attributes(first)) & set(_self_attributes(second)) & flow.stored_in_steps:
                    yield _at(function, node)


def _returned_attributes(flow: ValueFlow) -> set[str]:
    """Return the attributes that are actions; one that `act` multiplies by a gain is something estimated."""
    returned = [
        node.value
        for function, node in nodes_in_steps(flow)
        if function.node.name == "act" and isinstance(node, ast.Return) and node.value
    ]
    multiplied = {
        id(inner)
        for value in returned
        for node in every_node(value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.MatMult))
        for inner in every_node(node)
    }
    return {
        node.attr
        for value in returned
        for node in every_node(value)
        if isinstance(node, ast.Attribute) and id(node) not in multiplied and set(_self_attributes(node))
    }


def _mixes(flow: ValueFlow, function: SourceFunction, name: str, value: ast.expr) -> bool:
    """Return whether a new value is computed from the old one and from something observed."""
    if not any(isinstance(node, ast.BinOp) for node in every_node(value)):
        return False
    through = {
        target.id
        for node in every_node(function.node)
        if isinstance(node, ast.Assign) and name in _self_attributes(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return name in _self_attributes(value) or bool(names_in(value) & through)


def _feedback_control(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where a gain multiplies an error, or several gains multiply what was observed."""
    models = model_nodes(flow)
    for function, node in nodes_in_steps(flow):
        if id(node) in models or not isinstance(node, ast.BinOp):
            continue
        if _is_gain_times_error(flow, function, node) or _adds_products(flow, function, node):
            yield _at(function, node)


def _is_gain_times_error(flow: ValueFlow, function: SourceFunction, node: ast.BinOp) -> bool:
    if not isinstance(node.op, (ast.Mult, ast.MatMult)):
        return False
    for gain, error in ((node.left, node.right), (node.right, node.left)):
        applied = isinstance(node.op, ast.Mult) or Label.LOADED not in flow.labels(gain, function.node)
        if applied and Label.ERROR in flow.labels(error, function.node) and _is_gain(flow, function, gain):
            return True
    return False


def _is_gain(flow: ValueFlow, function: SourceFunction, node: ast.expr) -> bool:
    return Label.OBS not in flow.labels(node, function.node)


def _adds_products(flow: ValueFlow, function: SourceFunction, node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.Add, ast.Sub)) and sum(_observed_products(flow, function, node)) >= 2


def _observed_products(flow: ValueFlow, function: SourceFunction, node: ast.expr) -> Iterator[bool]:
    """Yield for each term of a sum whether it is a gain times something observed."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _observed_products(flow, function, left)
            yield from _observed_products(flow, function, right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            pairs = ((left, right), (right, left))
            yield any(_is_gain(flow, function, gain) and _has(flow, seen, function, Label.OBS) for gain, seen in pairs)


def _lookup_table(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where an entry of a fixed table is taken by what was observed, or by the step."""
    models = model_nodes(flow)
    for function, node in nodes_in_steps(flow):
        match node:
            case ast.Subscript(
                value=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name), slice=key
            ):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[key, *_]):
                pass
            case _:
                continue
        if id(node) not in models and _is_table(flow, name) and _varies(flow, function, key):
            yield _at(function, node)


def _varies(flow: ValueFlow, function: SourceFunction, key: ast.expr) -> bool:
    return bool(flow.labels(key, function.node) & {Label.OBS, Label.KEPT})


def _is_table(flow: ValueFlow, name: str) -> bool:
    """Return whether a name holds numbers that were written down, or read from a file; directions are no table."""
    value = flow.constants.get(name)
    if value is None or name in flow.stored_in_steps:
        return False
    if Label.LOADED in flow.labels(value, None) | flow.globals.get(name, frozenset()):
        return True
    if isinstance(value, ast.Call) and called_name(value) in ("array", "asarray") and value.args:
        value = value.args[0]
    written = isinstance(value, (ast.List, ast.Tuple, ast.Dict)) and not any(
        isinstance(node, ast.Name) for node in every_node(value)
    )
    return written and len(_numbers(value)) >= 2 and not _are_directions(value)


def _numbers(value: ast.expr) -> list[int | float]:
    constants = [node.value for node in every_node(value) if isinstance(node, ast.Constant)]
    return [constant for constant in constants if isinstance(constant, (int, float)) and not isinstance(constant, bool)]


def _are_directions(value: ast.expr) -> bool:
    """Return whether a table lists unit steps: pairs of -1, 0 and 1."""
    entries = value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
    pairs = [entry for entry in entries if isinstance(entry, (ast.Tuple, ast.List))]
    numbers = {abs(number) for number in _numbers(value)}
    return bool(pairs) and len(pairs) == len(entries) and numbers <= {0, 1}


def _learned_weights(flow: ValueFlow) -> Iterator[Evidence]:
    """Yield where something observed is multiplied by an array of many numbers, or by one from a file."""
    for function, node in nodes_in_steps(flow):
        if not is_matrix_product(node):
            continue
        operands = _operands(node)
        labels = set().union(*(flow.labels(operand, function.node) for operand in operands))
        fitted = Label.LOADED in labels or any(_is_large(flow, operand) for operand in operands)
        if Label.OBS in labels and fitted:
            yield _at(function, node)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    assert isinstance(node, ast.Call)
    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return [*owner, *node.args]


def _is_large(flow: ValueFlow, node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    value = flow.constants.get(name)
    return value is not None and _count_numbers(value) >= MANY_NUMBERS


def _count_numbers(value: ast.expr) -> int:
    """Count the numbers that are written in an expression, also in a text of numbers."""
    texts = [node.value for node in every_node(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return len(_numbers(value)) + sum(_is_number(word) for text in texts for word in text.split())


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).lstrip("+-").isdigit()


def _has(flow: ValueFlow, node: ast.expr, function: SourceFunction, label: Label) -> bool:
    return label in flow.labels(node, function.node)


RULES: Final[dict[str, Rule]] = {
    "perception": _perception,
    "memory": _memory,
    "search": _search,
    "state_estimation": _state_estimation,
    "feedback_control": _feedback_control,
    "lookup_table": _lookup_table,
    "learned_weights": _learned_weights,
}
