"""Values with intervals as dots with whiskers: scores of entrants, hit rates by the size of the edit (Figure 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.edits.sizes import Size
from evopolicygym.analysis.groups import Group
from evopolicygym.analysis.stats.hit_rates import Rate
from evopolicygym.report.legends import legend, stroke
from evopolicygym.report.scales import Box, Look, Scale, below, beside, fitted
from evopolicygym.report.svg import Figure, element, group, hint, line, words
from evopolicygym.report.text import number, percent
from evopolicygym.report.widths import within

WIDTH: Final = 760
LEFT: Final = 230
ROW: Final = 26


@dataclass(frozen=True)
class Dot:
    name: str
    value: float
    low: float | None
    high: float | None
    colour: str


def forest(name: str, title: str, axis: str, dots: Sequence[Dot]) -> Figure | None:
    """One row for each; a dot without whiskers has no interval."""
    if not dots:
        return None
    box = Box(LEFT, 8, WIDTH - 20, 8 + ROW * len(dots))
    everything = [value for dot in dots for value in (dot.value, dot.low, dot.high) if value is not None]
    x = fitted(everything, box.left, box.right)
    rows = [_row(dot, box.top + ROW * (i + 0.5), x) for i, dot in enumerate(dots)]
    return Figure(name, title, WIDTH, int(box.bottom + 44), group([*below(box, x, axis), *rows]))


def _row(dot: Dot, y: float, x: Scale) -> Markup:
    span = "no interval" if dot.low is None else f"{number(dot.low)} to {number(dot.high)}"
    label = words(LEFT - 8, y + 4, within(dot.name, LEFT - 10), "end")
    parts = [hint(f"{dot.name}: {number(dot.value)}, {span}"), label]
    if dot.low is not None and dot.high is not None:
        parts.append(line(x(dot.low), y, x(dot.high), y, stroke=dot.colour, stroke_width=2.0))
    return group([*parts, element("circle", cx=x(dot.value), cy=y, r=4.5, fill=dot.colour)])


def hits_by_size(name: str, title: str, agents: Mapping[str, Group], looks: Mapping[str, Look]) -> Figure | None:
    """For each size of edit the share that raised the best, agent beside agent."""
    known = {label: one for label, one in agents.items() if any(rate.n for rate in one.sizes.values())}
    if not known:
        return None
    box = Box(70, 24, WIDTH - 20, 250)
    y = Scale(0.0, 100.0, box.bottom, box.top)
    step = (box.right - box.left) / len(Size)
    marks = [
        _rate(label, size, one.sizes[size], box.left + step * (i + (j + 1) / (len(known) + 1)), y, looks[label])
        for i, size in enumerate(Size)
        for j, (label, one) in enumerate(known.items())
        if one.sizes[size].n
    ]
    key, height = legend([(stroke(looks[one]), one) for one in known], box.left, 306, box.right - box.left)
    body = group([*beside(box, y, "edits that were a new best (%)"), *_sizes(box, step), *marks, key])
    return Figure(name, title, WIDTH, int(300 + height), body)


def _sizes(box: Box, step: float) -> Iterator[Markup]:
    yield line(box.left, box.bottom, box.right, box.bottom, class_="axis")
    for i, size in enumerate(Size):
        yield words(box.left + step * (i + 0.5), box.bottom + 16, size, "middle")
    yield words((box.left + box.right) / 2, box.bottom + 34, "size of the edit (share of changed lines)", "middle")


def _rate(label: str, size: Size, rate: Rate, at: float, y: Scale, look: Look) -> Markup:
    assert rate.rate is not None and rate.low is not None and rate.high is not None
    text = (
        f"{label}, {size}: {rate.hits} of {rate.n}, {percent(rate.rate)} ({percent(rate.low)} to {percent(rate.high)})"
    )
    whisker = line(at, y(100 * rate.low), at, y(100 * rate.high), stroke=look.colour, stroke_width=2.0)
    dot = element("circle", cx=at, cy=y(100 * rate.rate), r=4.5, fill=look.colour)
    return group([hint(text), whisker, dot, words(at, y(100 * rate.high) - 4, rate.n, "middle quiet", font_size=10)])
