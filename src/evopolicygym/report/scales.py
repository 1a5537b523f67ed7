"""From numbers to places on paper: linear scales with round ticks, colours, and the frame of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from markupsafe import Markup

from evopolicygym.report.svg import line, words
from evopolicygym.report.text import number

# Okabe and Ito (2008), told apart by all common kinds of sight. Black and yellow are left out: one of them is
# invisible on a dark page, the other on a white one.
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
class Look:
    """Of one entrant, the same in all figures."""

    colour: str
    dash: str


def looks(names: Iterable[str]) -> dict[str, Look]:
    """When the colours are used up the dashes change."""
    return {
        name: Look(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)])
        for i, name in enumerate(sorted(set(names)))
    }


@dataclass(frozen=True)
class Scale:
    """From ``low`` to ``high`` onto the pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        step = _round_step((self.high - self.low) / about)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [place * step for place in range(first, last + 1)]


def fitted(values: Iterable[float], start: float, end: float, margin: float = 0.05) -> Scale:
    """With some room about the values; a single value stands in the middle."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    room = (high - low) * margin or abs(low) * 0.1 or 1.0
    return Scale(low - room, high + room, start, end)


@dataclass(frozen=True)
class Box:
    """The plane of a chart in pixels, y growing downwards."""

    left: float
    top: float
    right: float
    bottom: float


def frame(box: Box, x: Scale, y: Scale, x_label: str, y_label: str) -> Iterator[Markup]:
    yield from chain(below(box, x, x_label), beside(box, y, y_label))


def below(box: Box, x: Scale, label: str, ticks: Sequence[float] | None = None) -> Iterator[Markup]:
    """The axis under a chart, its grid lines and its name."""
    for value in ticks if ticks is not None else x.ticks(6):
        yield line(x(value), box.top, x(value), box.bottom, class_="grid")
        yield words(x(value), box.bottom + 16, number(value), "middle quiet")
    yield line(box.left, box.bottom, box.right, box.bottom, class_="axis")
    yield words((box.left + box.right) / 2, box.bottom + 34, label, "middle")


def beside(box: Box, y: Scale, label: str) -> Iterator[Markup]:
    for value in y.ticks():
        yield line(box.left, y(value), box.right, y(value), class_="grid")
        yield words(box.left - 6, y(value) + 4, number(value), "end quiet")
    yield line(box.left, box.top, box.left, box.bottom, class_="axis")
    middle = (box.top + box.bottom) / 2
    yield words(14, middle, label, "middle", transform=f"rotate(-90 14 {middle:g})")


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1.0, 2.0, 5.0) if m * power >= rough * 0.999), 10.0 * power)
