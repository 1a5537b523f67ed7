"""Topology: syntax trees as text that is the same on every Python, with numbers or without.

``ast.dump`` is not used: it writes the same tree differently from version to version. Nothing here recurses, so that
the depth of a tree, which an agent chooses, is no limit of ours.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

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
