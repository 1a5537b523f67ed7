"""The canonical form of a program: a text that does not depend on names, order of definitions, unused code or looks.

The text begins at class `Policy` and at statements with effects, and goes on with what they mention, in the order in
which it is mentioned. Names are replaced by numbers in that order: `l` for locals, `m` for module-level names, `a` for
attributes. What is never mentioned is never written. docs/diagnostics.md states the rules, and what they miss.

Where a program reads its own names at run time (`eval`, `globals`, computed `getattr`), all names stay as they are.
Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from evopolicygym.analysis.edits.bundle import Bundle
from evopolicygym.analysis.edits.canonical_tokens import NameRules, NameToken, ValueToken
from evopolicygym.analysis.edits.canonical_writer import CONTRACT, CanonicalWriter
from evopolicygym.analysis.edits.modules import BundleNames, bound_names
from evopolicygym.analysis.edits.simplify import FUNCTIONS, Purity, Simplifier, drop_unread, every_node, module_aliases

DYNAMIC: Final = frozenset(
    "eval exec globals locals vars compile __import__ import_module __dict__ __subclasses__ __init_subclass__ "
    "__setattr__ __getattr__ __getattribute__ _getframe inspect methodcaller __class__".split()
)
LISTING: Final = frozenset({"glob", "rglob", "iglob", "iterdir", "listdir", "scandir", "walk"})
BY_NAME: Final = frozenset({"getattr", "setattr", "hasattr", "delattr", "attrgetter", "__slots__"})
ARRAY_ATTRIBUTES: Final = frozenset(
    "T all any argmax argmin argsort astype clip copy cumsum dot dtype fill flat flatten item max mean min ndim "
    "nonzero prod ravel repeat reshape round shape size sort squeeze std sum take tobytes tolist trace transpose "
    "var".split()
)
KNOWN_ATTRIBUTES: Final = (
    ARRAY_ATTRIBUTES
    | frozenset(
        name
        for kind in (list, dict, set, str, bytes, tuple, int, float, complex, type, Exception)
        for name in dir(kind)
    )
    | frozenset(
        "append appendleft popleft extendleft rotate random uniform normal integers choice add_argument".split()
    )
)


@dataclass(frozen=True)
class CanonicalForm:
    """Text of a program with its constants, without them, and its statements without names and constants. ``texts``:
    its strings. ``lists_folders``: it may read files whose names it does not hold."""

    program: str
    shape: str
    statements: tuple[str, ...]
    texts: frozenset[str]
    lists_folders: bool


def canonical_form(bundle: Bundle) -> CanonicalForm:
    """Return the canonical form of a bundle. Changes its trees."""
    trees = {file.path: file.tree for file in bundle.files if file.tree is not None}
    unparsed = {file.path: file.digest for file in bundle.files if file.tree is None}
    defined = frozenset(
        node.name
        for tree in trees.values()
        for node in every_node(tree)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
    )
    purities = {path: Purity(module_aliases(tree), defined) for path, tree in trees.items()}
    for path, tree in trees.items():
        Simplifier(purities[path]).visit(tree)
    rules = name_rules(trees.values(), fixed=bool(bundle.unresolved))
    if not rules.fixed:
        drop_unread(trees.values(), purities.values(), rules.attributes - defined)
    tokens = CanonicalWriter(BundleNames(trees, unparsed, purities), rules).write_bundle()
    tokens += [f"bytes {digest}\n" for digest in sorted(unparsed.values())]
    return _form(tokens, [node for tree in trees.values() for node in every_node(tree)])


def _form(tokens: Sequence[str], nodes: Sequence[ast.AST]) -> CanonicalForm:
    masked = "".join("?" if isinstance(token, (ValueToken, NameToken)) else token for token in tokens)
    return CanonicalForm(
        program="".join(tokens),
        shape="".join("#" if isinstance(token, ValueToken) else token for token in tokens),
        statements=tuple(line for line in masked.split("\n") if line),
        texts=frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
        lists_folders=bool(LISTING & {*_mentioned(nodes)}),
    )


def name_rules(trees: Iterable[ast.Module], fixed: bool) -> NameRules:
    """Return which names of a program must stay. ``fixed``: it imports files that reading cannot tell."""
    nodes = [node for tree in trees for node in every_node(tree)]
    mentioned = {*_mentioned(nodes)}
    keywords = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    spread = any(isinstance(node, ast.keyword) and node.arg is None for node in nodes)
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {text for text in texts if text.isidentifier() and not keyword.iskeyword(text)}
    reserved = {*KNOWN_ATTRIBUTES, *CONTRACT, *_outside_members(nodes), *(names if mentioned & BY_NAME else ())}
    return NameRules(
        fixed or bool(mentioned & DYNAMIC) or _reads_computed_names(nodes) or _imports_everything(nodes),
        frozenset(keywords | (names if spread else set())),
        frozenset(_own_attributes(nodes)) - reserved,
    )


def _own_attributes(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the attributes that the program itself defines."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from bound_names(node)


def _mentioned(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.alias(name=name):
                yield name


def _reads_computed_names(nodes: Iterable[ast.AST]) -> bool:
    """Return whether a name is computed that `getattr` and the like look up."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(), *_]) if name in BY_NAME:
                continue
            case ast.Call(func=ast.Name(id=name)) if name in BY_NAME:
                return True
    return False


def _imports_everything(nodes: Iterable[ast.AST]) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)


def _outside_members(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield names in the bodies of classes that a base or a decorator may look at."""
    for node in nodes:
        if isinstance(node, ast.ClassDef) and (node.bases or node.keywords or node.decorator_list):
            yield from bound_names(node)
