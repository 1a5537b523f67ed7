"""Axes, legends and colours of charts: linear axes with round ticks, and the frame of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from markupsafe import Markup

from evopolicygym.report.svg import group, line, shorten_to_width, svg_text, tooltip
from evopolicygym.report.svg import text_width as width_of
from evopolicygym.report.text import number

# Okabe and Ito (2008): distinguishable with all common kinds of colour vision.
# Black and yellow are left out: one is invisible on a dark page, the other on a white one.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
GREY: Final = "#8A8F98"
COLOURS: Final = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
DASHES: Final = ("none", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class EntrantStyle:
    """Colour and dashes of one entrant, the same in all figures."""

    colour: str
    dash: str


def entrant_styles(names: Iterable[str]) -> dict[str, EntrantStyle]:
    """Assign a style to each entrant. When the colours are used up, the dashes change."""
    return {
        name: EntrantStyle(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)])
        for i, name in enumerate(sorted(set(names)))
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
    room = (high - low) * margin or abs(low) * 0.1 or 1.0
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


def legend(entries: Sequence[tuple[Markup, str]], left: float, top: float, width: float) -> tuple[Markup, float]:
    """Draw a legend in rows, and return it with its height. Marks are drawn about the origin, 20 pixels wide."""
    placed, x, y = [], left, top
    for mark, name in entries:
        text = shorten_to_width(name, MAX_LABEL_WIDTH)
        needs = 28 + width_of(text) + 8
        if x > left and x + needs > left + width:
            x, y = left, y + ROW
        moved = group([mark], transform=f"translate({x + 10:g} {y:g})")
        placed.append(group([tooltip(name), moved, svg_text(x + 26, y + 4, text)]))
        x += needs
    return group(placed), y - top + ROW


def stroke(style: EntrantStyle) -> Markup:
    return line(-10, 0, 10, 0, stroke=style.colour, stroke_width=2.5, stroke_dasharray=style.dash)
