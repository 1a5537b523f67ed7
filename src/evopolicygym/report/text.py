"""Make text from agents safe to show: characters that are invisible or change the direction of text are replaced."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from markupsafe import Markup

SUSPECT: Final = re.compile(r"[^\n\t\x20-\x7e]")
BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
SPACE: Final = "Zs"
UNKNOWN: Final = "–"  # noqa: RUF001


def is_seen(char: str) -> bool:
    """Return whether a character shows as itself. Terminals obey control characters, XML forbids them; bidirectional
    ones reorder a line; others have no width or no glyph."""
    if char in BLANK or "\U000e0000" <= char <= "\U000e0fff":
        return False
    return char.isprintable() or unicodedata.category(char) == SPACE


def replace_unseen(text: str, mark: Callable[[str], str]) -> str:
    """Replace each character that does not show as itself by ``mark`` of it; newlines and tabs stay. Used for the page
    and for the terminal."""
    return SUSPECT.sub(lambda match: match[0] if is_seen(match[0]) else mark(match[0]), text)


def clean(value: object) -> object:
    """Clean a value that a template prints; markup was cleaned when it was made."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return replace_unseen(value, lambda _: "\N{REPLACEMENT CHARACTER}")


def plain(value: object) -> str:
    return str(clean(str(value)))


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float | None, digits: int = 4) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"


def minus_signs(cell: str) -> str:
    """Replace hyphens before numbers by minus signs; ranges such as 1-3 stay."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "\N{MINUS SIGN}", cell)
