"""Draw SVG: elements as escaped markup, figures for the page or for a file of their own, and axes, legends and colours
of charts."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from markupsafe import Markup, escape

from evopolicygym.report.text import number, plain

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
TINY: Final = 1e-300  # a range below it has no ticks
CAPTION_SIZE: Final = 9  # pixels
CAPTION_LETTER: Final = 5.2  # width of a letter
CAPTION_LINE: Final = 13
CAPTION_LEFT: Final = 8


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


def tooltip(text: object, about: str = "") -> Markup:
    """Return a title, which browsers show when the pointer rests on the parent. ``about``: who the entrant is."""
    return element("title", f"{text}\n{about}" if about else text)


@dataclass(frozen=True)
class Figure:
    """A figure. ``name`` is the stem of its file; ``title`` says what it shows; ``caption`` where its numbers come
    from: files of their own show it below the figure."""

    name: str
    title: str
    width: int
    height: int
    body: Markup
    caption: str = ""

    def inline(self) -> Markup:
        return self._svg(element("title", self.title), self.body)

    def standalone(self) -> str:
        style = element("style", Markup(f"{STYLE}\n{DARK}"))
        lines = textwrap.wrap(self.caption, int(self.width / CAPTION_LETTER))
        shown = [
            svg_text(CAPTION_LEFT, self.height + CAPTION_LINE * (number + 0.7), text, "quiet", font_size=CAPTION_SIZE)
            for number, text in enumerate(lines)
        ]
        head = [element("title", self.title), *([element("desc", self.caption)] if self.caption else [])]
        taller = replace(self, height=self.height + CAPTION_LINE * len(lines))
        return taller._svg(*head, style, self.body, *shown, xmlns=NAMESPACE) + "\n"

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
    remaining, kept = most - _letter("…"), 0
    while kept < len(text) and (remaining := remaining - _letter(text[kept])) >= 0:
        kept += 1
    return text[:kept] + "…"


def distinct_labels(names: Sequence[str], most: float) -> dict[str, str]:
    """Return each name as it fits. Names that would be cut to the same label lose their middle instead, and then get
    numbers: no two names share a label."""
    labels = {name: shorten_to_width(name, most) for name in names}
    for name in _sharing(labels):
        labels[name] = _cut_middle(name, most)
    for index, name in enumerate(_sharing(labels), 1):
        labels[name] = shorten_to_width(f"#{index} {name}", most)
    return labels


def _sharing(labels: Mapping[str, str]) -> list[str]:
    times = Counter(labels.values())
    return [name for name, label in labels.items() if times[label] > 1]


def _cut_middle(name: str, most: float) -> str:
    kept = len(name) - 1
    while kept > 2 and text_width(name[: (kept + 1) // 2] + "…" + name[-(kept // 2) :]) > most:
        kept -= 1
    return name[: (kept + 1) // 2] + "…" + name[-(kept // 2) :]


def _letter(letter: str) -> float:
    if letter in NARROW:
        return TEXT_SIZE * SHARES["narrow"]
    wide = letter in WIDE or letter.isupper() or unicodedata.east_asian_width(letter) in "WFA"
    return TEXT_SIZE * (SHARES["wide"] if wide else SHARES["usual"])


# Okabe and Ito (2008): distinguishable with all common kinds of colour vision.
# Black and yellow are left out: one is invisible on a dark page, the other on a white one.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
GREY: Final = "#8A8F98"
SLATE: Final = "#66707C"  # seen on light and dark pages
COLOURS: Final = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
DASHES: Final = ("none", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class EntrantStyle:
    """Colour and dashes of one entrant, the same in all figures; ``about``: its agent, model and settings."""

    colour: str
    dash: str
    about: str = ""


PLAIN: Final = EntrantStyle(GREY, "none")  # of rows that are no entrants


def entrant_styles(names: Iterable[str], about: Mapping[str, str] = MappingProxyType({})) -> dict[str, EntrantStyle]:
    """Assign a style to each entrant, in the order of their names."""
    return ordered_styles(sorted(set(names)), about)


def ordered_styles(names: Sequence[str], about: Mapping[str, str] = MappingProxyType({})) -> dict[str, EntrantStyle]:
    """Assign a style to each of these names. When the colours are used up, the dashes change."""
    return {
        name: EntrantStyle(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)], about.get(name, ""))
        for i, name in enumerate(names)
    }


@dataclass(frozen=True)
class Axis:
    """A linear axis: maps ``low`` to ``high`` onto the pixels ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        step = _round_step((self.high - self.low) / about)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def fit_axis(values: Iterable[float], start: float, end: float, margin: float = 0.05) -> Axis:
    """Return an axis that fits the values, with a margin; a single value is in the middle."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    span, size = (value if value > TINY else 0.0 for value in (high - low, abs(low)))
    room = span * margin or size * 0.1 or 1.0
    return Axis(low - room, high + room, start, end)


@dataclass(frozen=True)
class PlotArea:
    """The plotting area of a chart in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float


def frame(box: PlotArea, x: Axis, y: Axis, x_label: str, y_label: str) -> Iterator[Markup]:
    yield from chain(x_axis(box, x, x_label), y_axis(box, y, y_label))


def x_axis(box: PlotArea, x: Axis, label: str, ticks: Sequence[float] | None = None) -> Iterator[Markup]:
    """Draw the horizontal axis with grid lines and label."""
    for value in ticks if ticks is not None else x.ticks(6):
        yield line(x(value), box.top, x(value), box.bottom, class_="grid")
        yield svg_text(x(value), box.bottom + 16, number(value), "middle quiet")
    yield line(box.left, box.bottom, box.right, box.bottom, class_="axis")
    yield svg_text((box.left + box.right) / 2, box.bottom + 34, label, "middle")


def y_axis(box: PlotArea, y: Axis, label: str) -> Iterator[Markup]:
    for value in y.ticks():
        yield line(box.left, y(value), box.right, y(value), class_="grid")
        yield svg_text(box.left - 6, y(value) + 4, number(value), "end quiet")
    yield line(box.left, box.top, box.left, box.bottom, class_="axis")
    middle = (box.top + box.bottom) / 2
    yield svg_text(14, middle, label, "middle", transform=f"rotate(-90 14 {middle:g})")


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1.0, 2.0, 5.0) if m * power >= rough * 0.999), 10.0 * power)


ROW: Final = 18
MAX_LABEL_WIDTH: Final = 330  # pixels


def legend(
    entries: Sequence[tuple[Markup, str]],
    left: float,
    top: float,
    width: float,
    styles: Mapping[str, EntrantStyle] = MappingProxyType({}),
) -> tuple[Markup, float]:
    """Draw a legend in rows, and return it with its height. Marks are drawn about the origin, 20 pixels wide. Names
    that have one of ``styles`` are entrants."""
    placed, x, y = [], left, top
    labels = distinct_labels([name for _, name in entries], MAX_LABEL_WIDTH)
    for mark, name in entries:
        text = labels[name]
        needs = 28 + text_width(text) + 8
        if x > left and x + needs > left + width:
            x, y = left, y + ROW
        moved = group([mark], transform=f"translate({x + 10:g} {y:g})")
        placed.append(
            group([tooltip(name, styles[name].about if name in styles else ""), moved, svg_text(x + 26, y + 4, text)])
        )
        x += needs
    return group(placed), y - top + ROW


def stroke(style: EntrantStyle) -> Markup:
    return line(-10, 0, 10, 0, stroke=style.colour, stroke_width=2.5, stroke_dasharray=style.dash)
