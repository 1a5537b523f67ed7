"""Charts of scores: values with intervals (forest plots), hit rates by edit size (Figure 8), cost against score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.analyze import EntrantSummary
from evopolicygym.analysis.edits.kinds import SizeClass
from evopolicygym.analysis.leaderboard.build import CostRow
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.report.svg import (
    Axis,
    EntrantStyle,
    Figure,
    PlotArea,
    element,
    fit_axis,
    frame,
    group,
    legend,
    line,
    shorten_to_width,
    stroke,
    svg_text,
    tooltip,
    x_axis,
    y_axis,
)
from evopolicygym.report.text import number, percent

WIDTH: Final = 760
LEFT: Final = 230
ROW: Final = 26


@dataclass(frozen=True)
class ForestPoint:
    """One row of a forest plot."""

    name: str
    value: float
    low: float | None
    high: float | None
    colour: str


def forest(name: str, title: str, axis: str, dots: Sequence[ForestPoint]) -> Figure | None:
    """Draw a row with value and interval for each point; a dot without whiskers has no interval."""
    if not dots:
        return None
    box = PlotArea(LEFT, 8, WIDTH - 20, 8 + ROW * len(dots))
    values = [value for dot in dots for value in (dot.value, dot.low, dot.high) if value is not None]
    x = fit_axis(values, box.left, box.right)
    rows = [_row(dot, box.top + ROW * (i + 0.5), x) for i, dot in enumerate(dots)]
    return Figure(name, title, WIDTH, int(box.bottom + 44), group([*x_axis(box, x, axis), *rows]))


def _row(dot: ForestPoint, y: float, x: Axis) -> Markup:
    span = "no interval" if dot.low is None else f"{number(dot.low)} to {number(dot.high)}"
    label = svg_text(LEFT - 8, y + 4, shorten_to_width(dot.name, LEFT - 10), "end")
    parts = [tooltip(f"{dot.name}: {number(dot.value)}, {span}"), label]
    if dot.low is not None and dot.high is not None:
        parts.append(line(x(dot.low), y, x(dot.high), y, stroke=dot.colour, stroke_width=2.0))
    return group([*parts, element("circle", cx=x(dot.value), cy=y, r=4.5, fill=dot.colour)])


def hits_by_size(
    name: str, title: str, agents: Mapping[str, EntrantSummary], styles: Mapping[str, EntrantStyle]
) -> Figure | None:
    """Draw for each size of edit the share that was a new best, by agent."""
    with_edits = {label: agent for label, agent in agents.items() if any(rate.n for rate in agent.sizes.values())}
    if not with_edits:
        return None
    box = PlotArea(70, 24, WIDTH - 20, 250)
    y = Axis(0.0, 100.0, box.bottom, box.top)
    step = (box.right - box.left) / len(SizeClass)
    marks = [
        _rate(label, size, agent.sizes[size], box.left + step * (i + (j + 1) / (len(with_edits) + 1)), y, styles[label])
        for i, size in enumerate(SizeClass)
        for j, (label, agent) in enumerate(with_edits.items())
        if agent.sizes[size].n
    ]
    key, height = legend([(stroke(styles[label]), label) for label in with_edits], box.left, 306, box.right - box.left)
    body = group([*y_axis(box, y, "edits that were a new best (%)"), *_sizes(box, step), *marks, key])
    return Figure(name, title, WIDTH, int(300 + height), body)


def _sizes(box: PlotArea, step: float) -> Iterator[Markup]:
    yield line(box.left, box.bottom, box.right, box.bottom, class_="axis")
    for i, size in enumerate(SizeClass):
        yield svg_text(box.left + step * (i + 0.5), box.bottom + 16, size, "middle")
    yield svg_text((box.left + box.right) / 2, box.bottom + 34, "size of the edit (share of changed lines)", "middle")


def _rate(label: str, size: SizeClass, rate: HitRate, at: float, y: Axis, style: EntrantStyle) -> Markup:
    assert rate.rate is not None and rate.low is not None and rate.high is not None
    text = (
        f"{label}, {size}: {rate.hits} of {rate.n}, {percent(rate.rate)} ({percent(rate.low)} to {percent(rate.high)})"
    )
    whisker = line(at, y(100 * rate.low), at, y(100 * rate.high), stroke=style.colour, stroke_width=2.0)
    dot = element("circle", cx=at, cy=y(100 * rate.rate), r=4.5, fill=style.colour)
    return group(
        [tooltip(text), whisker, dot, svg_text(at, y(100 * rate.high) - 4, rate.n, "middle quiet", font_size=10)]
    )


BOX: Final = PlotArea(70, 14, 740, 290)
CostPoint = tuple[CostRow, float, float]


def cost_pareto(name: str, title: str, rows: Sequence[CostRow], styles: Mapping[str, EntrantStyle]) -> Figure | None:
    """Draw cost against score with the Pareto front; None when no entrant has both a cost and a score."""
    points = [
        (row, row.cost.dollars, row.score) for row in rows if row.cost.dollars is not None and row.score is not None
    ]
    if not points:
        return None
    x = Axis(0.0, max(dollars for _, dollars, _ in points) * 1.15 or 1.0, BOX.left, BOX.right)
    y = fit_axis((score for _, _, score in points), BOX.bottom, BOX.top, 0.15)
    axes = frame(BOX, x, y, "dollars per run", "normalised score")
    front = sorted((point for point in points if point[0].pareto), key=lambda point: point[1])
    body = [*axes, _front(front, x, y), *(_dot(*point, x, y, styles[point[0].entrant]) for point in points)]
    return Figure(name, title, 760, 340, group(body))


def _front(front: Sequence[CostPoint], x: Axis, y: Axis) -> Markup:
    """Draw the Pareto front as steps."""
    (_, dollars, score), *dearer = front
    steps = "".join(f"H{x(cost):.1f}V{y(value):.1f}" for _, cost, value in dearer)
    path = f"M{x(dollars):.1f} {y(score):.1f}{steps}H{BOX.right:g}"
    return element("path", d=path, class_="axis", stroke_dasharray="4 3")


def _dot(row: CostRow, dollars: float, score: float, x: Axis, y: Axis, style: EntrantStyle) -> Markup:
    text = f"{row.entrant}: {number(score)} for {number(dollars)} dollars"
    left = dollars > x.high * 0.6
    label = svg_text(
        x(dollars) + (-8 if left else 8), y(score) - 6, shorten_to_width(row.entrant, 300), "end" if left else "start"
    )
    return group([tooltip(text), element("circle", cx=x(dollars), cy=y(score), r=5, fill=style.colour), label])
