"""How wide a text will be, before any font is known: an upper guess, so that labels stay inside their figures."""

from __future__ import annotations

import unicodedata
from typing import Final

from evopolicygym.report.svg import TEXT_SIZE

NARROW: Final = frozenset("iIjltfr.,:;'|!()[]/ ")
WIDE: Final = frozenset("mwMW@%—…")
SHARES: Final = {"narrow": 0.42, "usual": 0.64, "wide": 1.0}  # of the size


def width(text: str) -> float:
    return sum(map(_letter, text))


def within(text: str, most: float) -> str:
    """As much of the text as fits, with dots where something is missing."""
    if width(text) <= most:
        return text
    left, kept = most - _letter("…"), 0
    while kept < len(text) and (left := left - _letter(text[kept])) >= 0:
        kept += 1
    return text[:kept] + "…"


def _letter(letter: str) -> float:
    if letter in NARROW:
        return TEXT_SIZE * SHARES["narrow"]
    wide = letter in WIDE or letter.isupper() or unicodedata.east_asian_width(letter) in "WFA"
    return TEXT_SIZE * (SHARES["wide"] if wide else SHARES["usual"])
