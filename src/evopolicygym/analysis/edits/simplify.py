"""Simplify syntax trees: remove what cannot change what a program does, and write equal things in one way.

Removed: docstrings and other unused values, annotations, prints and logging, unreachable statements, assignments that
nothing reads. The rules are careful: what might matter stays. Standard library only: this runs in the limited child
process. Trees are changed in place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

PURE_BUILTINS: Final = frozenset(
    "abs all any bool complex dict divmod enumerate float frozenset int isinstance len list max min pow range repr "
    "reversed round set slice sorted str sum tuple type zip".split()
)
PURE_MODULES: Final = frozenset(
    {"numpy", "math", "cmath", "scipy", "collections", "itertools", "functools", "operator"}
)
IMPURE_PARTS: Final = frozenset(
    {"random", "copyto", "put", "place", "putmask", "fill_diagonal", "seterr", "save", "savez"}
)
PURE_METHODS: Final = frozenset(
    "all any argmax argmin astype copy count dot flatten format get index item items join keys lower max mean min "
    "ravel reshape round size split startswith endswith std strip sum tolist transpose upper values".split()
)
LOGGING: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
LOGGERS: Final = frozenset({"logging", "loguru.logger"})
STREAM_METHODS: Final = frozenset(
    f"sys.{stream}.{method}" for stream in ("stdout", "stderr") for method in ("write", "flush")
)
LEAVING: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES: Final = (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LEAVES: Final = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
HAVING_EFFECTS: Final = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
COMPUTE: Final[dict[type[ast.operator], Callable[[complex, complex], object]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}
MAX_FOLDED: Final = 1e15
MAX_ROUNDS: Final = 20
SWAPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}
Node = TypeVar("Node", bound=ast.AST)


def module_aliases(tree: ast.Module) -> dict[str, str]:
    """Return the names that a file imports from modules, with their full names; a logger counts as `logging`."""
    names: dict[str, str] = {}
    for node in every_node(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="getLogger"))):
                names[name] = "logging"
    return names


class Purity:
    """Whether evaluating an expression does nothing but compute. ``defined``: functions of the program by name, which
    may do anything, and names that hide a builtin."""

    def __init__(self, aliases: dict[str, str], defined: frozenset[str]) -> None:
        self._aliases, self._defined = aliases, defined

    def of(self, expression: ast.AST | None) -> bool:
        if expression is None:
            return True
        return all(
            not isinstance(node, HAVING_EFFECTS) and (not isinstance(node, ast.Call) or self._pure_call(node))
            for node in every_node(expression)
        )

    def _pure_call(self, call: ast.Call) -> bool:
        if any(keyword.arg == "out" for keyword in call.keywords):
            return False
        match call.func:
            case ast.Name(id=name):
                full = self._aliases.get(name, "")
                return name not in self._defined and (name in PURE_BUILTINS or _is_pure_function(full))
            case ast.Attribute(attr=name) as function:
                full = self._full_name(function)
                return _is_pure_function(full) if full else name in PURE_METHODS and name not in self._defined
        return False

    def _full_name(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return ""
        return ".".join([self._aliases[node.id], *reversed(parts)])

    def writes_only(self, call: ast.expr) -> bool:
        """Return whether a call prints or logs what it computes, and nothing else."""
        if not isinstance(call, ast.Call):
            return False
        arguments: list[ast.expr] = [*call.args, *(keyword.value for keyword in call.keywords)]
        match call.func:
            case ast.Name(id="print") if "print" not in self._defined:
                writes = all(keyword.arg in ("sep", "end", "flush") or _is_stream(keyword) for keyword in call.keywords)
            case ast.Attribute(value=ast.Name(id=name), attr=method) if self._aliases.get(name) in LOGGERS:
                writes = method in LOGGING
            case ast.Attribute() as function:
                writes = self._full_name(function) in STREAM_METHODS
            case _:
                writes = False
        return writes and all(map(self.of, arguments))


def _is_stream(keyword: ast.keyword) -> bool:
    return (
        keyword.arg == "file"
        and isinstance(keyword.value, ast.Attribute)
        and keyword.value.attr in ("stdout", "stderr")
    )


def _is_pure_function(full: str) -> bool:
    if full == "logging.getLogger":
        return True
    parts = full.split(".")
    return parts[0] in PURE_MODULES and not IMPURE_PARTS & {*parts} and len(parts) > 1


class Simplifier(ast.NodeTransformer):
    """Simplifies a file's tree, one time through."""

    def __init__(self, purity: Purity) -> None:
        self._purity = purity
        self._tries = 0

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Keep in a `try` what can raise: it decides which branch runs."""
        self._tries += 1
        visited = self.generic_visit(node)
        self._tries -= 1
        return visited

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, name, self._block(block))
        for name in ("body",) if not isinstance(node, (ast.Module, ast.expr)) else ():
            if getattr(node, name, None) == []:
                setattr(node, name, [ast.Pass()])
        return node

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        kept = [statement for statement in statements if not self._does_nothing(statement)]
        end = next((i for i, statement in enumerate(kept) if isinstance(statement, LEAVING)), len(kept))
        rest = kept[end + 1 :]
        return kept if any(_makes_generator(statement) for statement in rest) else kept[: end + 1]

    def _does_nothing(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Pass():
                return True
            case ast.Expr(value=value):
                computes = self._purity.of(value) and (not self._tries or isinstance(value, ast.Constant))
                return computes or self._purity.writes_only(value)
            case ast.If(test=test, body=body, orelse=alternative):
                empty = all(isinstance(inner, ast.Pass) for inner in (*body, *alternative))
                return empty and self._purity.of(test)
            case ast.ImportFrom(module="__future__"):
                return True
        return False

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        match node.test:
            case ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ):
                return node.orelse
            case ast.UnaryOp(op=ast.Not(), operand=operand) if node.orelse:
                done = [statement for statement in node.body if not isinstance(statement, ast.Pass)]
                node.test, node.body, node.orelse = operand, node.orelse, done
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        match node.test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ast.IfExp(operand, node.orelse, node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Drop an annotation; a bare one is kept as a field, which classes made by a decorator count."""
        self.generic_visit(node)
        if node.value is None:
            return ast.AnnAssign(node.target, ast.Constant(None), None, node.simple)
        return ast.Assign([node.target], node.value, lineno=0)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        value = _number(node.operand)
        if value is None:
            return node
        match node.op:
            case ast.UAdd():
                return ast.Constant(+value)
            case ast.USub():
                return ast.Constant(-value)
            case ast.Invert() if isinstance(value, int):
                return ast.Constant(~value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = _number(node.left), _number(node.right)
        if left is not None and right is not None and (folded := _fold(left, node.op, right)) is not None:
            return ast.Constant(folded)
        if isinstance(node.op, ast.Sub) and right is not None:
            return ast.BinOp(node.left, ast.Add(), ast.Constant(-right))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        if len(node.ops) > 1 and not all(isinstance(operand, (ast.Name, ast.Constant)) for operand in operands[1:-1]):
            return node
        pairs = [_ordered(*pair) for pair in zip(operands, node.ops, operands[1:], strict=False)]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)


def _ordered(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    swapped = SWAPPED.get(type(operator))
    return ast.Compare(right, [swapped()], [left]) if swapped else ast.Compare(left, [operator], [right])


def _makes_generator(statement: ast.stmt) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in every_node(statement))


def _number(node: ast.expr) -> int | float | complex | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex) else None  # type: ignore[return-value]


def _fold(left: complex, operator: ast.operator, right: complex) -> complex | None:
    compute = COMPUTE.get(type(operator))
    if compute is None or max(abs(left), abs(right)) > MAX_FOLDED:
        return None
    try:
        return compute(left, right)  # type: ignore[return-value]
    except ArithmeticError:
        return None


def every_node(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, in no special order, without contexts and operators: `ast.walk` takes longer."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                waiting += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                waiting.append(value)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of the scopes inside it, which are yielded themselves."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def drop_unread(trees: Iterable[ast.Module], purities: Iterable[Purity], attributes: frozenset[str]) -> None:
    """Drop assignments to locals, and to these attributes of self, that nothing reads, until there are none."""
    files = list(zip(trees, purities, strict=True))
    for _ in range(MAX_ROUNDS):
        nodes = [node for tree, _ in files for node in every_node(tree)]
        read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store)}
        shared = _assigned_objects(nodes)
        changed = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
        read |= {target.attr for target in changed if isinstance(target, ast.Attribute)} & shared
        dropped = [_Unread(purity, attributes - read, shared).drop(tree) for tree, purity in files]
        if not any(dropped):
            return


def _assigned_objects(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names and attributes that are bound to more than constants: `x += 1` may change what they share."""
    objects: set[str] = set()
    for node in nodes:
        match node:
            case ast.Assign(value=ast.Constant()) | ast.AugAssign():
                continue
            case ast.Assign(targets=targets):
                bound: list[ast.AST] = list(targets)
            case ast.For(target=target) | ast.comprehension(target=target) | ast.NamedExpr(target=target):
                bound = [target]
            case ast.withitem(optional_vars=ast.expr() as target):
                bound = [target]
            case ast.arg(arg=name):
                objects.add(name)
                continue
            case _:
                continue
        for inner in (inner for part in bound for inner in every_node(part)):
            objects |= {inner.id} if isinstance(inner, ast.Name) else set()
            objects |= {inner.attr} if isinstance(inner, ast.Attribute) else set()
    return frozenset(objects)


class _Unread:
    """Drops assignments that nothing reads. ``attributes``: those that nothing reads. ``shared``: names and attributes
    that may be other names of an object that is read."""

    def __init__(self, purity: Purity, attributes: frozenset[str], shared: frozenset[str]) -> None:
        self._purity, self._attributes, self._shared = purity, attributes, shared
        self._dropped = False

    def drop(self, tree: ast.Module) -> bool:
        """Drop once; return whether there was anything to drop."""
        for node in every_node(tree):
            if isinstance(node, FUNCTIONS):
                self._in_function(node)
        if self._dropped:
            Simplifier(self._purity).visit(tree)
        return self._dropped

    def _in_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        read: set[str] = set()
        for node in every_node(function):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                read |= {*node.names}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                read.add(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                read |= {node.target.id} & self._shared
        own = [node for node in own_nodes(function) if not isinstance(node, SCOPES)]
        tried = {id(inner) for node in own if isinstance(node, ast.Try) for inner in every_node(node)}
        for node in [function, *own]:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    self._in_block(block, read, can_raise=id(node) not in tried)

    def _in_block(self, block: list[ast.stmt], read: set[str], can_raise: bool) -> None:
        for index, statement in enumerate(block):
            if self._is_unread(statement, read, can_raise):
                block[index] = ast.Pass()
                self._dropped = True

    def _is_unread(self, statement: ast.stmt, read: set[str], can_raise: bool) -> bool:
        match statement:
            case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
                harmless = self._purity.of(value) and (can_raise or isinstance(value, ast.Constant))
                return harmless and self._unread_target(target, read)
        return False

    def _unread_target(self, target: ast.expr, read: set[str]) -> bool:
        match target:
            case ast.Name(id=name):
                return name not in read
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name in self._attributes
            case ast.Tuple(elts=elements):
                return all(isinstance(element, ast.Name) and element.id not in read for element in elements)
        return False
