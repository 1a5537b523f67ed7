"""Module-level names of a bundle: what each file defines, what its imports mean, and which statements have effects.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from evopolicygym.analysis.edits.simplify import FUNCTIONS, Purity, every_node, own_nodes

HARMLESS_DECORATORS: Final = frozenset(
    "staticmethod classmethod property abstractmethod setter getter dataclass lru_cache cache cached_property wraps "
    "njit jit vectorize override final total_ordering".split()
)
MAX_IMPORT_STEPS: Final = 50


@dataclass(frozen=True)
class ExternalName:
    """Something from outside the bundle, by its full name: `numpy.clip`, or a builtin."""

    name: str


@dataclass(frozen=True)
class BundleName:
    """A module-level name of a file of the bundle."""

    file: str
    name: str


@dataclass(frozen=True)
class BundleModule:
    """A file of the bundle, as a module."""

    file: str


ResolvedName = ExternalName | BundleName | BundleModule
Target = tuple[str, str | None]  # full name of a module, and the name taken from it


@dataclass
class ModuleNames:
    """Module level of one file. ``definitions``: names bound once, by a statement that can stand anywhere.
    ``effects``: the other statements, in their order. ``imports``: names that only one import binds."""

    file: str
    tree: ast.Module
    bound: frozenset[str]
    imports: dict[str, Target] = field(default_factory=dict)
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    effects: list[ast.stmt] = field(default_factory=list)


def bound_names(scope: ast.AST) -> Counter[str]:
    """Count how often each name is bound in a scope: assigned, defined, imported, caught or matched."""
    names: Counter[str] = Counter()
    for node in own_nodes(scope):
        names.update(_bound_by(node))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            names.update(
                inner.target.id
                for inner in every_node(node)
                if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name)
            )
    return names


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            yield from (alias.asname or alias.name.split(".")[0] for alias in aliases)
        case ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def import_targets(statement: ast.stmt, package: tuple[str, ...]) -> Iterator[tuple[str, Target]]:
    """Yield the names that an import binds, with what they mean."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield (
                alias.asname or alias.name.split(".")[0],
                (alias.name if alias.asname else alias.name.split(".")[0], None),
            )
    elif isinstance(statement, ast.ImportFrom):
        above = package[: len(package) - statement.level + 1] if statement.level else ()
        base = ".".join([*above, *([statement.module] if statement.module else [])])
        for alias in statement.names:
            yield alias.asname or alias.name, (base, alias.name)


def package_of(file: str) -> tuple[str, ...]:
    return tuple(file.split("/")[:-1])


class BundleNames:
    """Module-level names of all files of a bundle."""

    def __init__(self, trees: dict[str, ast.Module], unparsed: Iterable[str], purities: dict[str, Purity]) -> None:
        self._files = {*trees, *unparsed}
        nodes = [node for tree in trees.values() for node in every_node(tree)]
        self._rebound = {
            node.attr for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        } | {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        self.modules = {file: self._read(file, tree, purities[file]) for file, tree in trees.items()}

    def _read(self, file: str, tree: ast.Module, purity: Purity) -> ModuleNames:
        tree.body = [part for statement in tree.body for part in _split(statement)]
        counts = bound_names(tree)
        module = ModuleNames(file, tree, frozenset(counts))
        for statement in tree.body:
            targets = list(import_targets(statement, package_of(file)))
            name = _defined_name(statement, purity)
            if targets and all(counts[bound] == 1 for bound, _ in targets):
                module.imports |= dict(targets)
            elif name is not None and counts[name] == 1:
                module.definitions[name] = statement
            else:
                module.effects.append(statement)
        if module.effects:
            _order_computed(module)
        return module

    def is_constant(self, meaning: BundleName) -> ast.Constant | None:
        """Return the constant that a name stands for everywhere."""
        module = self.modules.get(meaning.file)
        statement = module.definitions.get(meaning.name) if module else None
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            return None if meaning.name in self._rebound else statement.value
        return None

    def resolve(self, file: str, name: str) -> ResolvedName:
        """Return what a name means at module level of a file."""
        for _ in range(MAX_IMPORT_STEPS):
            module = self.modules.get(file)
            if module is None or name not in module.imports:
                break
            full, taken = module.imports[name]
            following = self._target(full, taken)
            if not isinstance(following, BundleName):
                return following
            file, name = following.file, following.name
        module = self.modules.get(file)
        return BundleName(file, name) if module is None or name in module.bound else ExternalName(name)

    def member(self, module: BundleModule, name: str) -> ResolvedName:
        """Return what `module.name` means."""
        submodule = self._file(".".join([*_module_name(module.file), name]))
        names = self.modules.get(module.file)
        if names is not None and name not in names.bound and submodule:
            return BundleModule(submodule)
        return self.resolve(module.file, name)

    def meaning(self, target: Target) -> ResolvedName:
        """Return what an import inside of a function binds."""
        definition = self._target(*target)
        return self.resolve(definition.file, definition.name) if isinstance(definition, BundleName) else definition

    def _target(self, full: str, taken: str | None) -> ResolvedName:
        file = self._file(full)
        if taken is None:
            return BundleModule(file) if file else ExternalName(full)
        if submodule := self._file(f"{full}.{taken}" if full else taken):
            return BundleModule(submodule)
        return BundleName(file, taken) if file else ExternalName(f"{full}.{taken}")

    def _file(self, full: str) -> str | None:
        path = full.replace(".", "/")
        return next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in self._files), None)


def _module_name(file: str) -> list[str]:
    return file.removesuffix("/__init__.py").removesuffix(".py").split("/")


def _split(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Split `import a, b` and `a, b = 1, 2`: the same as one after the other where no value reads a name."""
    match statement:
        case ast.Import(names=aliases) if len(aliases) > 1:
            yield from (ast.Import([alias]) for alias in aliases)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(
            values
        ) and all(isinstance(value, ast.Constant) for value in values):
            yield from (ast.Assign([name], value, lineno=0) for name, value in zip(names, values, strict=True))
        case _:
            yield statement


def _defined_name(statement: ast.stmt, purity: Purity) -> str | None:
    """Return the name that a statement defines, if it does nothing else."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return statement.name if _is_harmless(statement, purity) else None
        case ast.ClassDef():
            parts = all(
                _is_harmless(inner, purity)
                if isinstance(inner, FUNCTIONS)
                else _defined_name(inner, purity) is not None
                for inner in statement.body
                if not isinstance(inner, (ast.Pass, ast.AnnAssign))
            )
            return statement.name if parts and _are_harmless(statement.decorator_list) else None
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if purity.of(value):
            return name
    return None


def _is_harmless(function: ast.stmt, purity: Purity) -> bool:
    assert isinstance(function, FUNCTIONS)
    defaults = [*function.args.defaults, *function.args.kw_defaults]
    return all(map(purity.of, defaults)) and _are_harmless(function.decorator_list)


def _are_harmless(decorators: list[ast.expr]) -> bool:
    for decorator in decorators:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in HARMLESS_DECORATORS:
            return False
    return True


def _order_computed(module: ModuleNames) -> None:
    """Keep the order of computed values among the effects, which may change what they are computed from."""
    own = module.bound - module.imports.keys()
    computed = {name for name, statement in module.definitions.items() if _reads(statement) & own}
    ordered = {id(module.definitions[name]) for name in computed} | {id(statement) for statement in module.effects}
    module.effects = [statement for statement in module.tree.body if id(statement) in ordered]
    module.definitions = {name: definition for name, definition in module.definitions.items() if name not in computed}


def _reads(statement: ast.stmt) -> set[str]:
    """Return the names that are read when a definition is made: the value, and the defaults of functions."""
    evaluated: list[ast.AST | None] = [statement.value] if isinstance(statement, ast.Assign) else []
    for node in every_node(statement):
        if isinstance(node, FUNCTIONS):
            evaluated += [*node.args.defaults, *node.args.kw_defaults]
    return {node.id for part in evaluated if part for node in every_node(part) if isinstance(node, ast.Name)}
