"""SVG elements as escaped markup, and figures for the page or for a file of their own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from evopolicygym.report.text import plain

INK: Final = "#1b1f24"
TEXT_SIZE: Final = 12  # pixels
OPACITY: Final = {"axis": 0.55, "grid": 0.13, "quiet": 0.85}
# Text and lines take the colour of the page around them, so that one figure serves paper, light and dark.
STYLE: Final = f"""\
svg.figure{{font:{TEXT_SIZE}px system-ui,sans-serif;color:{INK}}}
svg.figure text{{fill:currentColor}}
svg.figure .axis{{stroke:currentColor;stroke-opacity:{OPACITY["axis"]};fill:none}}
svg.figure .grid{{stroke:currentColor;stroke-opacity:{OPACITY["grid"]};fill:none}}
svg.figure .quiet{{color:inherit;fill-opacity:{OPACITY["quiet"]}}}
svg.figure .middle{{text-anchor:middle}}
svg.figure .end{{text-anchor:end}}"""
DARK: Final = "@media screen and (prefers-color-scheme:dark){svg.figure{color:#e6e8ea;background:#15181c}}"
NAMESPACE: Final = "http://www.w3.org/2000/svg"


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; ``stroke_width`` becomes `stroke-width`. Children that are not markup are escaped."""
    written = "".join(f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Markup) else escape(plain(child)) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def group(children: Iterable[Markup], **attributes: object) -> Markup:
    return element("g", *children, **attributes)


def svg_text(x: float, y: float, text: object, class_: str = "start", **attributes: object) -> Markup:
    return element("text", text, x=x, y=y, class_=class_, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def tooltip(text: object) -> Markup:
    """Return a title, which browsers show when the pointer rests on the parent."""
    return element("title", text)


@dataclass(frozen=True)
class Figure:
    """A figure. ``name`` is the stem of its file; ``title`` says what it shows."""

    name: str
    title: str
    width: int
    height: int
    body: Markup

    def inline(self) -> Markup:
        return self._svg(element("title", self.title), self.body)

    def standalone(self) -> str:
        style = element("style", Markup(f"{STYLE}\n{DARK}"))
        return self._svg(element("title", self.title), style, self.body, xmlns=NAMESPACE) + "\n"

    def _svg(self, *children: Markup, **more: object) -> Markup:
        size = {"viewBox": f"0 0 {self.width} {self.height}", "width": self.width, "height": self.height}
        return element("svg", *children, class_="figure", role="img", **size, **more)


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: object) -> Markup:
    return escape(f"{value:.6g}" if isinstance(value, float) else plain(value))


NARROW: Final = frozenset("iIjltfr.,:;'|!()[]/ ")
WIDE: Final = frozenset("mwMW@%—…")
SHARES: Final = {"narrow": 0.42, "usual": 0.64, "wide": 1.0}  # of the size


def text_width(text: str) -> float:
    return sum(map(_letter, text))


def shorten_to_width(text: str, most: float) -> str:
    """Return as much of the text as fits, with an ellipsis where it is cut."""
    if text_width(text) <= most:
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
