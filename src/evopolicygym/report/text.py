"""Make text from agents safe to show: characters that are invisible or change the direction of text are replaced."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from evopolicygym.printable import replace_unseen

UNKNOWN: Final = "–"  # noqa: RUF001
LONGEST: Final = 10_000_000  # numbers below are written out


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
    """Return a number with so many digits, and whole where it has more before the point: 12346, not 1.235e+04."""
    if value is None:
        return UNKNOWN
    text = f"{value:.0f}" if 10**digits <= abs(value) < LONGEST else f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"


def minus_signs(cell: str) -> str:
    """Replace hyphens before numbers by minus signs; ranges such as 1-3 stay."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "\N{MINUS SIGN}", cell)
