"""Where values of a policy come from: observations, files, earlier steps. Approximate, by names; nothing is run.

Each expression gets labels: ``OBS`` if it depends on the observation, ``RAW`` if it is a part of the observation as it
came, ``ERROR`` if it is a difference with something observed, ``LOADED`` if it comes from a file, ``KEPT`` if it
depends on an attribute that earlier steps wrote. Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from evopolicygym.analysis.edits.bundle import Bundle, called_name
from evopolicygym.analysis.edits.simplify import FUNCTIONS

ROUNDS: Final = 4
LOADING: Final = frozenset(
    {"load", "loads", "loadtxt", "genfromtxt", "read_text", "read_bytes", "fromfile", "frombuffer"}
)
KEEPING_RAW: Final = frozenset(
    {"asarray", "array", "astype", "tolist", "copy", "reshape", "squeeze", "atleast_2d", "float"}
)
OUTSIDE_STEPS: Final = frozenset({"__init__", "reset"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Label(Enum):
    OBS = auto()
    RAW = auto()
    ERROR = auto()
    LOADED = auto()
    KEPT = auto()


Labels = frozenset[Label]
NOTHING: Final[Labels] = frozenset()


@dataclass(frozen=True)
class SourceFunction:
    """A function of the policy. ``in_steps``: it can run in `act`, and not only in `__init__` and `reset`."""

    file: str
    node: Function
    in_steps: bool


@dataclass
class ValueFlow:
    """Labels of all names of a policy. ``locals``: by function and name; ``attributes`` and ``globals``: by name alone.
    ``constants``: values of names that are bound at module level or in `__init__`."""

    functions: list[SourceFunction]
    constants: dict[str, ast.expr]
    locals: dict[int, dict[str, Labels]] = field(default_factory=lambda: defaultdict(dict))
    attributes: dict[str, Labels] = field(default_factory=dict)
    globals: dict[str, Labels] = field(default_factory=dict)
    returned: dict[str, Labels] = field(default_factory=dict)
    stored_in_steps: frozenset[str] = frozenset()

    def labels(self, node: ast.AST, function: Function | None) -> Labels:
        """Return the labels of an expression in a function."""
        own = self.locals.get(id(function), {}) if function else {}
        match node:
            case ast.Name(id=name):
                return own[name] if name in own else self.globals.get(name, NOTHING)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                kept = {Label.KEPT} if name in self.stored_in_steps else set()
                return (self.attributes.get(name, NOTHING) - {Label.RAW}) | kept
            case ast.Subscript(value=value):
                return self.labels(value, function) | (self.labels(node.slice, function) - {Label.RAW, Label.ERROR})
            case ast.Call():
                return self._call(node, function)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._operation(left, operator, right, function)
            case ast.UnaryOp(operand=operand):
                return self.labels(operand, function)
            case ast.Lambda() | ast.Constant():
                return NOTHING
        inner = [self.labels(child, function) for child in ast.iter_child_nodes(node) if isinstance(child, ast.AST)]
        return frozenset().union(*inner) - {Label.RAW}

    def _call(self, node: ast.Call, function: Function | None) -> Labels:
        name = called_name(node)
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            parts.append(node.func.value)
        labels = frozenset[Label]().union(*(self.labels(part, function) for part in parts))
        labels |= self.returned.get(name, NOTHING)
        if name in LOADING:
            labels |= {Label.LOADED}
        if name in ("int", "len", "round") or name.startswith("arg"):
            labels -= {Label.ERROR}
        return labels if name in KEEPING_RAW else labels - {Label.RAW}

    def _operation(self, left: ast.expr, operator: ast.operator, right: ast.expr, function: Function | None) -> Labels:
        labels = [self.labels(side, function) for side in (left, right)]
        both = labels[0] | labels[1]
        if isinstance(operator, ast.Sub) and Label.OBS in both and not isinstance(right, ast.Constant):
            both |= {Label.ERROR}
        elif not isinstance(operator, (ast.Sub, ast.Add)):
            both -= {Label.ERROR} if isinstance(operator, ast.Div) else set()
        plain = [not side for side in labels]
        return both if any(plain) else both - {Label.RAW}


def value_flow(bundle: Bundle) -> ValueFlow:
    """Follow the values of a policy from its observation, its files and its attributes."""
    trees = {file.path: file.tree for file in bundle.files if file.tree is not None}
    functions = list(_functions(trees))
    flow = ValueFlow(functions, _constants(trees))
    flow.stored_in_steps = frozenset(
        name for function in functions if function.in_steps for name in _stored_attributes(function.node)
    )
    for _ in range(ROUNDS):
        for tree in trees.values():
            _follow_statements(flow, tree, None)
        for function in functions:
            _follow_function(flow, function)
    return flow


@dataclass(frozen=True)
class _Listed:
    """A function with its file and the class around it."""

    file: str
    owner: str | None
    node: Function
    mentions: frozenset[str]


def _functions(trees: dict[str, ast.Module]) -> Iterator[SourceFunction]:
    """Yield the functions that class `Policy` reaches by name."""
    listed = [
        _Listed(file, owner, node, frozenset(_mentioned(node)))
        for file, tree in trees.items()
        for owner, scope in _owners(tree)
        for node in scope
        if isinstance(node, FUNCTIONS)
    ]
    bases = {name: _mentioned_by_class(node) for tree in trees.values() for name, node in _classes(tree)}
    outside = {name for tree in trees.values() for statement in tree.body for name in _at_import(statement)}
    everything = _closure({"Policy", "act", "reset", "__init__", *outside}, listed, bases, frozenset())
    classes = everything & bases.keys()
    in_steps = _closure({"act", *classes}, listed, bases, OUTSIDE_STEPS)
    for function in listed:
        if function.node.name in everything and (function.owner is None or function.owner in classes):
            yield SourceFunction(function.file, function.node, function.node.name in in_steps)


def _classes(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef]]:
    yield from ((node.name, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _owners(tree: ast.Module) -> Iterator[tuple[str | None, list[ast.AST]]]:
    """Yield each class with its methods, and None with the functions outside of classes, nested ones included."""
    methods: set[int] = set()
    for name, node in _classes(tree):
        own = [inner for inner in ast.walk(node) if isinstance(inner, FUNCTIONS)]
        yield name, [inner for inner in own if id(inner) not in methods]
        methods |= {id(inner) for inner in own}
    yield None, [node for node in ast.walk(tree) if id(node) not in methods]


def _mentioned_by_class(node: ast.ClassDef) -> set[str]:
    """Return what making a class mentions: bases, decorators and values, but not its methods."""
    parts = [*node.bases, *node.decorator_list, *(part for part in node.body if not isinstance(part, FUNCTIONS))]
    return {name for part in parts for name in _mentioned(part)}


def _at_import(statement: ast.stmt) -> set[str]:
    return set() if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) else _mentioned(statement)


def _mentioned(node: ast.AST) -> set[str]:
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def _closure(
    names: set[str], listed: list[_Listed], bases: dict[str, set[str]], leaving_out: frozenset[str]
) -> set[str]:
    """Return the names that are mentioned by what the names reach; methods are reached with their class alone."""
    reached = set(names)
    while True:
        more = {name for class_name in reached & bases.keys() for name in bases[class_name]}
        for function in listed:
            if function.node.name in reached and (function.owner is None or function.owner in reached):
                more |= function.mentions - leaving_out
        if more <= reached:
            return reached
        reached |= more


def _constants(trees: dict[str, ast.Module]) -> dict[str, ast.expr]:
    constants: dict[str, ast.expr] = {}
    for tree in trees.values():
        starts = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and node.name in OUTSIDE_STEPS]
        for statement in (node for scope in (tree, *starts) for node in _nodes(scope)):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                    constants[name] = value
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    pairs = zip(targets, values, strict=False)
                    constants |= {target.id: value for target, value in pairs if isinstance(target, ast.Name)}
    return constants


def _stored_attributes(function: Function) -> Iterator[str]:
    """Yield the attributes of self that a function writes, or changes in place."""
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=method)):
                if method in CHANGING_METHODS:
                    yield name


CHANGING_METHODS: Final = frozenset(
    "append appendleft pop popleft extend insert add update clear remove setdefault".split()
)


def _follow_function(flow: ValueFlow, function: SourceFunction) -> None:
    own = flow.locals[id(function.node)]
    if function.node.name == "act":
        arguments = function.node.args.args
        own |= {argument.arg: frozenset({Label.OBS, Label.RAW}) for argument in arguments[1:2]}
    _follow_statements(flow, function.node, function.node)


def _follow_statements(flow: ValueFlow, scope: ast.Module | Function, function: Function | None) -> None:
    nodes = _nodes(scope)
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _bind(flow, target, value, function)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                _bind(flow, target, value, function)
            case ast.NamedExpr(target=target, value=value):
                _bind(flow, target, value, function)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                _bind(flow, target, value, function)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                _bind(flow, target, value, function)
            case ast.Return(value=ast.expr() as value) if function and function.name != "act":
                labels = flow.labels(value, function)
                flow.returned[function.name] = flow.returned.get(function.name, NOTHING) | labels
            case ast.Call():
                _pass_arguments(flow, node, function)


def _nodes(scope: ast.Module | Function) -> list[ast.AST]:
    """Return the nodes of a function, or of the module level, in the order of the source."""
    if not isinstance(scope, ast.Module):
        return [node for statement in scope.body for node in ast.walk(statement)]
    level = [statement for statement in scope.body if not isinstance(statement, (*FUNCTIONS, ast.ClassDef))]
    return [node for statement in level for node in ast.walk(statement)]


def _bind(flow: ValueFlow, target: ast.expr, value: ast.expr, function: Function | None) -> None:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else []
        for index, element in enumerate(target.elts):
            _bind(flow, element, values[index] if values else value, function)
        return
    _add(flow, target, flow.labels(value, function), function)


def _add(flow: ValueFlow, target: ast.expr, labels: Labels, function: Function | None) -> None:
    match target:
        case ast.Name(id=name) if function:
            own = flow.locals[id(function)]
            own[name] = own.get(name, NOTHING) | labels
        case ast.Name(id=name):
            flow.globals[name] = flow.globals.get(name, NOTHING) | labels
        case ast.Attribute(attr=name):
            flow.attributes[name] = flow.attributes.get(name, NOTHING) | labels
        case ast.Subscript(value=value) | ast.Starred(value=value):
            _add(flow, value, labels - {Label.RAW}, function)


def _pass_arguments(flow: ValueFlow, call: ast.Call, caller: Function | None) -> None:
    """Give the parameters of functions of the policy the labels of what they are called with."""
    name = called_name(call)
    for function in flow.functions:
        is_made = function.node.name == "__init__" and name not in ("__init__", "super") and name[:1].isupper()
        if function.node.name != name and not is_made:
            continue
        parameters = [argument.arg for argument in function.node.args.args]
        if parameters[:1] == ["self"]:
            parameters = parameters[1:]
        own = flow.locals[id(function.node)]
        for parameter, argument in zip(parameters, call.args, strict=False):
            own[parameter] = own.get(parameter, NOTHING) | flow.labels(argument, caller)
