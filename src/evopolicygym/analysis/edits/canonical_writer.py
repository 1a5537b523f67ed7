"""Write the canonical text of a program: definitions in the order of their first mention, names as numbers.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from evopolicygym.analysis.edits.bundle import POLICY
from evopolicygym.analysis.edits.canonical_tokens import (
    NameRules,
    NameScope,
    NameToken,
    NodePlace,
    ValueToken,
    constant_token,
    leading_settings,
    made_at_once,
    target_order,
)
from evopolicygym.analysis.edits.modules import (
    BundleModule,
    BundleName,
    BundleNames,
    ExternalName,
    ResolvedName,
    bound_names,
    import_targets,
    package_of,
)
from evopolicygym.analysis.edits.simplify import FUNCTIONS, own_nodes

CONTRACT: Final = ("__init__", "reset", "act")
KNOWN_NUMBERS: Final = frozenset({"math.pi", "math.e", "math.tau", "math.inf", "numpy.pi", "numpy.e", "numpy.inf"})
SKIPPED_FIELDS: Final = frozenset({"ctx", "type_comment", "kind", "simple", "type_params"})


class CanonicalWriter:
    """Writes the canonical text of a bundle as tokens."""

    def __init__(self, names: BundleNames, rules: NameRules) -> None:
        self._names, self._rules = names, rules
        self._numbers: dict[BundleName, int] = {}
        self._attributes: dict[str, int] = {}
        self._members: dict[str, list[tuple[str, ast.stmt]]] = {}  # of classes that were written, not mentioned yet
        self._waiting: deque[Callable[[], None]] = deque()
        self._deferred: list[tuple[list[ast.Assign], NodePlace]] = []
        self._tokens: list[str] = []
        entry = names.resolve(POLICY, "Policy")
        self._entry = (
            entry if isinstance(entry, BundleName) and isinstance(self._definition(entry), ast.ClassDef) else None
        )

    def write_bundle(self) -> list[str]:
        """Return the tokens of the whole bundle."""
        for file in sorted(self._names.modules, key=lambda file: (file == POLICY, file)):
            self._body(self._names.modules[file].effects, NodePlace(file))
        if self._rules.fixed:
            for file, module in sorted(self._names.modules.items()):
                self._body(
                    [statement for statement in module.tree.body if statement not in module.effects], NodePlace(file)
                )
        elif self._entry:
            self._mention(self._entry)
        else:
            self._mention_all()
        self._finish()
        return self._tokens

    def _finish(self) -> None:
        while self._waiting or self._deferred:
            if self._waiting:
                self._waiting.popleft()()
            else:
                self._write_settings(*self._deferred.pop(0))

    def _definition(self, name: BundleName) -> ast.stmt | None:
        module = self._names.modules.get(name.file)
        return module.definitions.get(name.name) if module else None

    def _mention_all(self) -> None:
        """Mention every definition. For programs without class `Policy`."""
        listed = [BundleName(file, name) for file, module in self._names.modules.items() for name in module.definitions]
        for own in sorted(listed, key=self._text_alone):
            self._mention(own)

    def _text_alone(self, own: BundleName) -> str:
        trial = CanonicalWriter(self._names, self._rules)
        trial._define(own)
        return "".join("?" if isinstance(token, NameToken) else token for token in trial._tokens)

    def _mention(self, own: BundleName) -> str:
        if own not in self._numbers:
            self._numbers[own] = len(self._numbers)
            self._waiting.append(lambda: self._define(own))
        return NameToken(f"$m{self._numbers[own]}")

    def _define(self, own: BundleName) -> None:
        statement = self._definition(own)
        if statement is None:
            return
        self._tokens += ["define ", NameToken(f"$m{self._numbers.get(own, 0)}"), "\n"]
        if isinstance(statement, ast.ClassDef) and self._is_plain(statement):
            self._plain_class(statement, own.file)
        else:
            self._statement(statement, NodePlace(own.file))

    def _is_plain(self, node: ast.ClassDef) -> bool:
        """Return whether the members of a class may stand in any order."""
        counts = bound_names(node)
        read = {
            part.id
            for inner in node.body
            for value in made_at_once(inner)
            for part in ast.walk(value)
            if isinstance(part, ast.Name)
        }
        return (
            not self._rules.fixed
            and not (node.bases or node.keywords or node.decorator_list)
            and all(isinstance(inner, (*FUNCTIONS, ast.Assign, ast.Pass)) for inner in node.body)
            and all(number == 1 for number in counts.values())
            and not read & counts.keys()
        )

    def _plain_class(self, node: ast.ClassDef, file: str) -> None:
        """Write the members whose names are fixed; the others wait until they are mentioned."""
        members = {name: inner for inner in node.body for name in bound_names(ast.Module([inner], []))}
        for name in sorted(members):
            if self._rules.keeps(name):
                self._member(name, file, members[name])
        for name in [name for name in self._attributes if name in members]:
            self._member(name, file, members[name])
        for name, inner in members.items():
            if not self._rules.keeps(name) and name not in self._attributes:
                self._members.setdefault(name, []).append((file, inner))

    def _member(self, name: str, file: str, statement: ast.stmt) -> None:
        self._tokens += ["member ", self._attribute(name), "\n"]
        self._statement(statement, NodePlace(file, (NameScope(frozenset({name}), {}, is_class=True),)))

    def _attribute(self, name: str) -> str:
        """Return the token of an attribute. Its first mention has the members of that name written."""
        if self._rules.keeps(name):
            return name
        if name not in self._attributes:
            self._attributes[name] = len(self._attributes)
            for file, statement in self._members.pop(name, []):
                self._waiting.append(lambda file=file, statement=statement: self._member(name, file, statement))  # type: ignore[misc]
        return NameToken(f"$a{self._attributes[name]}")

    def _body(self, statements: Sequence[ast.stmt], place: NodePlace) -> None:
        """Write statements in their order. Constants that are assigned side by side are written at the end, in the
        order of the numbers of their names."""
        index = 0
        while index < len(statements):
            settings = leading_settings(statements[index:]) if place.scopes else []
            if len(settings) > 1 and not self._rules.fixed:
                self._tokens.append("settings\n")
                self._deferred.append((settings, place))
                index += len(settings)
            else:
                self._statement(statements[index], place)
                index += 1

    def _write_settings(self, settings: list[ast.Assign], place: NodePlace) -> None:
        lines = []
        for setting in settings:
            start = len(self._tokens)
            self._statement(setting, place)
            lines.append(self._tokens[start:])
            del self._tokens[start:]
        for line in sorted(lines, key=target_order):
            self._tokens += line

    def _statement(self, statement: ast.stmt, place: NodePlace) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and all(
            name in (place.scopes[-1].imports if place.scopes else self._names.modules[place.file].imports)
            for name, _ in import_targets(statement, package_of(place.file))
        ):
            return
        if not isinstance(statement, (ast.Global, ast.Nonlocal)):
            self._node(statement, place)
            self._tokens.append("\n")

    def _node(self, node: ast.AST, place: NodePlace) -> None:
        match node:
            case ast.Constant():
                self._tokens.append(constant_token(node.value, setting=False))
            case ast.Name(id=name):
                self._name(name, place)
            case ast.Attribute():
                self._write_attribute(node, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, place)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, place)
            case ast.ClassDef():
                self._inner_class(node, place)
            case ast.Assign():
                self._assign(node, place)
            case ast.JoinedStr():
                self._formatted(node, place)
            case _:
                self._fields(node, place)

    def _assign(self, node: ast.Assign, place: NodePlace) -> None:
        self._tokens.append("Assign(")
        self._nodes(node.targets, place)
        self._tokens.append("=")
        if isinstance(node.value, ast.Constant):
            self._tokens.append(constant_token(node.value.value, setting=True))
        else:
            self._node(node.value, place)
        self._tokens.append(")")

    def _nodes(self, nodes: Iterable[ast.AST | None], place: NodePlace) -> None:
        for node in nodes:
            if node is None:
                self._tokens.append("-")
            else:
                self._node(node, place)
            self._tokens.append(",")

    def _fields(self, node: ast.AST, place: NodePlace) -> None:
        self._tokens.append(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if name in SKIPPED_FIELDS or value is None or value == []:
                continue
            self._tokens.append(f"{name}=")
            if isinstance(value, list) and isinstance(value[0], ast.stmt):
                self._tokens.append("\n")
                self._body(value, place)
            elif isinstance(value, list):
                for item in value:
                    self._item(node, item, place)
                    self._tokens.append(",")
            else:
                self._item(node, value, place)
            self._tokens.append(";")
        self._tokens.append(")")

    def _item(self, node: ast.AST, value: object, place: NodePlace) -> None:
        if isinstance(value, ast.AST):
            self._node(value, place)
        elif isinstance(value, str) and isinstance(
            node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)
        ):
            self._name(value, place)
        elif isinstance(value, str) and isinstance(node, ast.MatchClass):
            self._tokens.append(self._attribute(value))
        else:
            self._tokens.append(ascii(value))

    def _formatted(self, node: ast.JoinedStr, place: NodePlace) -> None:
        """Write an f-string: code in braces, and text between. How a value is shown is a setting."""
        self._tokens.append("JoinedStr(")
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self._tokens.append("{")
                self._node(part.value, place)
                self._tokens.append(f"!{part.conversion}:")
                for spec in part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else ():
                    if isinstance(spec, ast.Constant):
                        self._tokens += [ValueToken(ascii(spec.value))] if spec.value else []
                    else:
                        self._node(spec, place)
                self._tokens.append("}")
            elif not isinstance(part, ast.Constant) or part.value:
                self._node(part, place)
        self._tokens.append(")")

    def _name(self, name: str, place: NodePlace) -> None:
        meaning = self._meaning(name, place)
        if isinstance(meaning, str):
            self._tokens.append(meaning)
        else:
            self._write_meaning(meaning)

    def _meaning(self, name: str, place: NodePlace) -> ResolvedName | str:
        """Return what a name means, or the token of a local or of a member of the class around it."""
        for depth, scope in reversed(list(enumerate(place.scopes))):
            if name not in scope.bound or (scope.is_class and depth < len(place.scopes) - 1):
                continue
            if name in scope.imports:
                return scope.imports[name]
            if scope.is_class:
                return self._attribute(name)
            if self._rules.fixed or (name in self._rules.keywords and name in scope.parameters):
                return name
            return NameToken(f"$l{scope.numbers.setdefault((scope, name), len(scope.numbers))}")
        return self._names.resolve(place.file, name)

    def _write_meaning(self, meaning: ResolvedName) -> None:
        match meaning:
            case ExternalName(name=name):
                self._tokens.append(ValueToken(name) if name in KNOWN_NUMBERS else name)
            case BundleModule(file=file):
                self._tokens.append(f"module {file}")
            case BundleName() if self._rules.fixed:
                self._tokens.append(meaning.name)
            case BundleName():
                constant = self._names.is_constant(meaning) if self._entry else None
                self._tokens.append(
                    constant_token(constant.value, setting=True) if constant else self._mention(meaning)
                )

    def _write_attribute(self, node: ast.Attribute, place: NodePlace) -> None:
        meaning = self._module_member(node, place)
        if meaning is not None:
            self._write_meaning(meaning)
            return
        self._node(node.value, place)
        self._tokens += [".", self._attribute(node.attr)]

    def _module_member(self, node: ast.expr, place: NodePlace) -> ResolvedName | None:
        """Return what `module.name` means; None where an attribute is not taken from a module."""
        if isinstance(node, ast.Name):
            meaning = self._meaning(node.id, place)
            return None if isinstance(meaning, (str, BundleName)) else meaning
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._module_member(node.value, place)
        if isinstance(owner, BundleModule):
            return self._names.member(owner, node.attr)
        return ExternalName(f"{owner.name}.{node.attr}") if isinstance(owner, ExternalName) else None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: NodePlace) -> None:
        self._tokens.append(f"{type(node).__name__}(")
        if not isinstance(node, ast.Lambda):
            self._nodes(node.decorator_list, place)
            self._name(node.name, place)
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if isinstance(default, ast.Constant):
                self._tokens.append(constant_token(default.value, setting=True))
            else:
                self._nodes([default], place)
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
        scope = self._scope(node, place, frozenset(argument.arg for argument in (*listed, *extra)))
        inner = place.inside(scope)
        self._tokens.append(f"|{len(arguments.posonlyargs)},{len(arguments.args)},{len(arguments.kwonlyargs)}:")
        self._tokens.append(f"{arguments.vararg is not None},{arguments.kwarg is not None}|")
        for argument in (*listed, *extra):
            self._name(argument.arg, inner)
            self._tokens.append(",")
        if isinstance(node, ast.Lambda):
            self._node(node.body, inner)
        else:
            self._tokens.append("\n")
            self._body(node.body, inner)
        self._tokens.append(")")

    def _scope(self, node: ast.AST, place: NodePlace, parameters: frozenset[str]) -> NameScope:
        counts = bound_names(node)
        shared = {
            name for part in own_nodes(node) if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names
        }
        bound = frozenset((counts.keys() | parameters) - shared)
        scope = NameScope(bound, place.numbers, parameters=parameters)
        for part in own_nodes(node):
            if isinstance(part, (ast.Import, ast.ImportFrom)):
                scope.imports |= {
                    name: self._names.meaning(target)
                    for name, target in import_targets(part, package_of(place.file))
                    if counts[name] == 1 and name not in shared
                }
        return scope

    def _comprehension(self, node: ast.expr, place: NodePlace) -> None:
        targets = [generator.target for generator in node.generators]  # type: ignore[attr-defined]
        names = frozenset(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
        scope = NameScope(names, place.numbers)
        self._fields(node, place.inside(scope))

    def _inner_class(self, node: ast.ClassDef, place: NodePlace) -> None:
        self._tokens.append("ClassDef(")
        self._nodes([*node.decorator_list, *node.bases], place)
        self._nodes(node.keywords, place)
        self._name(node.name, place)
        self._tokens.append("\n")
        self._body(node.body, place.inside(NameScope(frozenset(bound_names(node)), {}, is_class=True)))
        self._tokens.append(")")
