"""Text for a terminal or a page from strings of others: records, folder names, agents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

SUSPECT: Final = re.compile(r"[^\n\t\x20-\x7e]")
BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
SPACE: Final = "Zs"


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


def escape_unprintable(text: str) -> str:
    """Replace characters that a terminal would obey or not show by their escaped numbers."""
    return replace_unseen(text, lambda char: char.encode("unicode_escape").decode())


def one_line(text: object) -> str:
    """Escape a text for one line, such as a path in a message or a cell of a table."""
    return escape_unprintable(str(text)).replace("\n", "\\n")
