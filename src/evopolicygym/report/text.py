"""Text that agents had a hand in, made fit for a page: what is unseen, or turns the rest around, is marked."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

# Control characters and lone surrogates are no XML; the bidirectional ones make a line read as what it is not.
UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
UNKNOWN: Final = "–"  # noqa: RUF001


def clean(value: object) -> object:
    """For everything that a template prints; what is markup already was cleaned when it was made."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value)


def plain(value: object) -> str:
    return str(clean(str(value)))


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float | None, digits: int = 4) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
