"""Charts of one board: performance profiles with bands, shares of variance components, and cost against score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.leaderboard.aggregates import FEWEST_TASKS, PROFILE, Aggregate, AggregateRow
from evopolicygym.analysis.leaderboard.costs import CostRow
from evopolicygym.analysis.leaderboard.variance_table import VarianceRow
from evopolicygym.analysis.stats.estimates import Interval, Number
from evopolicygym.report.svg import (
    BLUE,
    ORANGE,
    PLAIN,
    SKY,
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
)
from evopolicygym.report.text import number, percent

WIDTH: Final = 760
BOX: Final = PlotArea(70, 14, 740, 290)
LEFT: Final = 290
ROW: Final = 22
MAX_ROWS: Final = 60  # of variance components; of more, those over all tasks
PARTS: Final = (("between runs", BLUE), ("between cases", ORANGE), ("rest", SKY))
CostPoint = tuple[CostRow, Number, Number]


def performance_profiles(name: str, whole: Aggregate, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    """Draw the share of runs above each score, with bands where the tasks are enough; None without standings."""
    if not whole.standings:
        return None
    last = max((score for score, shares in zip(PROFILE, zip(*whole.profiles.values(), strict=True), strict=True)
                if any(share.value for share in shares)), default=0.0)  # fmt: skip
    x = Axis(PROFILE[0], PROFILE[-1] if last >= 1.0 else 1.0, BOX.left, BOX.right)
    y = Axis(0.0, 1.0, BOX.bottom, BOX.top)
    shown = [(row, styles.get(row.entrant, PLAIN)) for row in whole.standings]
    has_bands = whole.tasks >= FEWEST_TASKS
    bands = [band for row, style in shown for band in _band(row, style, x, y) if has_bands]
    lines = [_profile(row, style, x, y) for row, style in shown]
    key, height = legend(
        [(stroke(style), row.entrant) for row, style in shown], BOX.left, 346, BOX.right - BOX.left, styles
    )
    axes = frame(BOX, x, y, "normalised score", "share of runs above it")
    title = f"Performance profiles over {whole.name}"
    return Figure(name, title, WIDTH, int(340 + height), group([*axes, *bands, *lines, key]))


def _band(row: AggregateRow, style: EntrantStyle, x: Axis, y: Axis) -> Iterator[Markup]:
    bounded = [(score, share.interval) for score, share in _shown(row, x) if share.interval]
    if bounded:
        top = [f"{x(score):.1f} {y(interval.high):.1f}" for score, interval in bounded]
        bottom = [f"{x(score):.1f} {y(interval.low):.1f}" for score, interval in bounded]
        path = f"M{' L'.join([*top, *reversed(bottom)])}Z"
        yield element("path", d=path, fill=style.colour, fill_opacity=0.12, stroke="none")


def _shown(row: AggregateRow, x: Axis) -> list[tuple[float, Number]]:
    """Return the part of a profile that is on the axis."""
    return [(score, share) for score, share in zip(PROFILE, row.profile, strict=True) if score <= x.high]


def _profile(row: AggregateRow, style: EntrantStyle, x: Axis, y: Axis) -> Markup:
    points = [f"{x(score):.1f} {y(share.value):.1f}" for score, share in _shown(row, x)]
    path = element(
        "path", d=f"M{' L'.join(points)}", fill="none", stroke=style.colour, stroke_width=2.0,
        stroke_dasharray=style.dash,
    )  # fmt: skip
    return group([tooltip(row.entrant, style.about), path])


def variance_shares(name: str, rows: Sequence[VarianceRow], styles: Mapping[str, EntrantStyle]) -> Figure | None:
    """Draw how the variance of a return splits into runs, cases and the rest."""
    over_tasks = [row for row in rows if row.task == rows[0].task]
    shown = [row for row in (rows if len(rows) <= MAX_ROWS else over_tasks) if row.components.shares]
    if not shown:
        return None
    box = PlotArea(LEFT, 8, WIDTH - 20, 8 + ROW * len(shown))
    x = Axis(0.0, 100.0, box.left, box.right)
    bars = [_shares(row, box.top + ROW * i, x, styles.get(row.entrant, PLAIN)) for i, row in enumerate(shown)]
    entries = [(element("rect", x=-10, y=-5, width=20, height=10, fill=colour), words) for words, colour in PARTS]
    key, height = legend(entries, LEFT, box.bottom + 56, WIDTH - LEFT)
    body = group([*x_axis(box, x, "share of the variance of a return (%)"), *bars, key])
    return Figure(name, "Variance components", WIDTH, int(box.bottom + 50 + height), body)


def _shares(row: VarianceRow, top: float, x: Axis, style: EntrantStyle) -> Markup:
    parts, before = row.components, 0.0
    name = f"{row.task}: {row.entrant}"
    marks = [svg_text(LEFT - 8, top + ROW / 2 + 4, shorten_to_width(name, LEFT - 10), "end")]
    for (words, colour), share, part in zip(
        PARTS, parts.shares or (), (parts.runs, parts.cases, parts.rest), strict=True
    ):
        bar = element("rect", x=x(before), y=top + 3, width=x(share * 100) - x(0.0), height=ROW - 6.0, fill=colour)
        text = f"{name}, {words}: {percent(share)}, deviation {_words(part)}"
        marks.append(group([tooltip(text, style.about), bar]))
        before += 100 * share
    return group(marks)


def cost_pareto(name: str, title: str, rows: Sequence[CostRow], styles: Mapping[str, EntrantStyle]) -> Figure | None:
    """Draw cost against score with the Pareto front; None when no entrant has both a cost and a score."""
    points = [(row, row.dollars, row.score) for row in rows if row.dollars and row.score]
    if not points:
        return None
    x = Axis(0.0, max(_high(dollars) for _, dollars, _ in points) * 1.15 or 1.0, BOX.left, BOX.right)
    y = fit_axis((end for _, _, score in points for end in _ends(score)), BOX.bottom, BOX.top, 0.15)
    axes = frame(BOX, x, y, "dollars per run", "normalised score")
    front = sorted((point for point in points if point[0].pareto), key=lambda point: point[1].value)
    body = [*axes, _front(front, x, y), *(_dot(*point, x, y, styles.get(point[0].entrant, PLAIN)) for point in points)]
    return Figure(name, title, WIDTH, 340, group(body))


def _front(front: Sequence[CostPoint], x: Axis, y: Axis) -> Markup:
    """Draw the Pareto front as steps."""
    (_, dollars, score), *dearer = front
    steps = "".join(f"H{x(cost.value):.1f}V{y(value.value):.1f}" for _, cost, value in dearer)
    path = f"M{x(dollars.value):.1f} {y(score.value):.1f}{steps}H{BOX.right:g}"
    return element("path", d=path, class_="axis", stroke_dasharray="4 3")


def _dot(row: CostRow, dollars: Number, score: Number, x: Axis, y: Axis, style: EntrantStyle) -> Markup:
    """Draw an entrant: filled where it is surely on the front, hollow where it possibly is, small where it is not."""
    at, height = x(dollars.value), y(score.value)
    text = f"{row.entrant}: {_words(score)} for {_words(dollars)} dollars; on the front: {row.front or 'unknown'}"
    marks = [tooltip(text, style.about)]
    if dollars.interval:
        marks.append(_whisker(x(dollars.interval.low), height, x(dollars.interval.high), height, style))
    if score.interval:
        marks.append(_whisker(at, y(score.interval.low), at, y(score.interval.high), style))
    radius = 3.5 if row.front == "no" else 5.5
    fill = style.colour if row.front != "possibly" else "none"
    marks.append(element("circle", cx=at, cy=height, r=radius, fill=fill, stroke=style.colour, stroke_width=2.0))
    offset, anchor = (-9, "end") if dollars.value > x.high * 0.6 else (9, "start")
    label = shorten_to_width(row.entrant, 300)
    return group([*marks, svg_text(at + offset, height - 8, label, anchor)])


def _whisker(x1: float, y1: float, x2: float, y2: float, style: EntrantStyle) -> Markup:
    return line(x1, y1, x2, y2, stroke=style.colour, stroke_width=1.5, stroke_opacity=0.7)


def _ends(value: Number) -> tuple[float, ...]:
    interval: Interval | None = value.interval
    return (value.value, interval.low, interval.high) if interval else (value.value,)


def _high(value: Number) -> float:
    return max(_ends(value))


def _words(value: Number) -> str:
    interval = value.interval
    return number(value.value) + (f" ({number(interval.low)} to {number(interval.high)})" if interval else "")
