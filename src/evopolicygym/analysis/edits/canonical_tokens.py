"""Tokens of the canonical text, scopes of names, and the places where nodes stand.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from evopolicygym.analysis.edits.modules import ResolvedName
from evopolicygym.analysis.edits.simplify import FUNCTIONS


class ValueToken(str):
    """A constant that an edit of parameters may change."""


class NameToken(str):
    """A name, replaced by its number."""


@dataclass(frozen=True)
class NameRules:
    """Which names are replaced. ``fixed``: none, and nothing is left out. ``keywords``: parameters that calls name, and
    that stay. ``attributes``: attributes that are replaced."""

    fixed: bool
    keywords: frozenset[str]
    attributes: frozenset[str]

    def keeps(self, attribute: str) -> bool:
        dunder = attribute.startswith("__") and attribute.endswith("__")
        return self.fixed or dunder or attribute not in self.attributes


@dataclass(eq=False)  # a key of `numbers` as the very scope: an id would come back for another one
class NameScope:
    """A scope inside of a file with the names that it binds. ``numbers``: of all locals of the outermost function."""

    bound: frozenset[str]
    numbers: dict[tuple[NameScope, str], int]
    imports: dict[str, ResolvedName] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    is_class: bool = False


@dataclass(frozen=True)
class NodePlace:
    """Where a node stands: its file, and the scopes around it, outermost first."""

    file: str
    scopes: tuple[NameScope, ...] = ()

    def inside(self, scope: NameScope) -> NodePlace:
        return NodePlace(self.file, (*self.scopes, scope))

    @property
    def numbers(self) -> dict[tuple[NameScope, str], int]:
        return next((scope.numbers for scope in self.scopes if not scope.is_class), {})


def made_at_once(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a class's member that are evaluated when the class is made."""
    if isinstance(statement, ast.Assign):
        return [statement.value]
    if isinstance(statement, FUNCTIONS):
        defaults = (*statement.args.defaults, *statement.args.kw_defaults)
        return [*statement.decorator_list, *(default for default in defaults if default)]
    return []


def leading_settings(statements: Sequence[ast.stmt]) -> list[ast.Assign]:
    """Return the first statements as long as each assigns a constant to another local or attribute of self."""
    settings: list[ast.Assign] = []
    targets: set[str] = set()
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Name() | ast.Attribute(value=ast.Name(id="self")) as target], value=ast.Constant()
            ):
                name = ast.unparse(target)
            case _:
                return settings
        if name in targets:
            return settings
        targets.add(name)
        settings.append(statement)
    return settings


def target_order(line: Sequence[str]) -> tuple[bool, int, str]:
    """Sort by the number of the name that is assigned; names without a number come first."""
    names = [token for token in line[: line.index("=")] if isinstance(token, NameToken)]
    fixed = "".join(token for token in line if not isinstance(token, NameToken))
    return (False, 0, fixed) if not names else (True, int(names[-1][2:]), names[-1][1])


def constant_token(value: object, setting: bool) -> str:
    """Return the token of a constant: numbers and flags are values, others where they are a setting alone."""
    match value:
        case bool():
            return ValueToken(str(value))
        case int():
            return ValueToken(f"int:{value:x}")
        case float():
            return ValueToken(f"float:{value.hex()}")
        case complex():
            return ValueToken(f"complex:{value.real.hex()},{value.imag.hex()}")
    return ValueToken(ascii(value)) if setting else ascii(value)
