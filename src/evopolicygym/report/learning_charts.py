"""Charts of learning: best validation mean so far over train episodes (Figure 3) and over steps, and the mean
normalised curve of each entrant from episode 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.gain import mean_steps
from evopolicygym.analysis.leaderboard.build import BoardTable
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
    stroke,
    tooltip,
)
from evopolicygym.report.text import number

WIDTH: Final = 760
BOX: Final = PlotArea(70, 14, 740, 290)
BUDGET: Final = "budget"


@dataclass(frozen=True)
class Curve:
    """A step function: (x, height) of each step. It keeps its last height until ``end``."""

    entrant: str
    name: str
    points: tuple[tuple[float, float], ...]
    end: float


@dataclass(frozen=True)
class CurveLabels:
    """Axes of a chart of curves; ``unit`` is what x counts."""

    x: str
    y: str
    unit: str


BY_EPISODE: Final = CurveLabels("episodes consumed", "best validation mean so far", "episodes")
BY_STEP: Final = CurveLabels("steps of train episodes", "best validation mean so far", "steps")
NORMALISED: Final = CurveLabels("episodes consumed", "normalised, mean over tasks", "episodes")


def learning_curves(
    name: str, title: str, curves: Sequence[Curve], styles: Mapping[str, EntrantStyle], labels: CurveLabels
) -> Figure | None:
    """Draw step functions; None when no curve has a point."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return None
    x = Axis(0.0, max(curve.end for curve in drawn) or 1.0, BOX.left, BOX.right)
    y = fit_axis((height for curve in drawn for _, height in curve.points), BOX.bottom, BOX.top)
    lines = [_line(curve, x, y, styles[curve.entrant], labels.unit) for curve in drawn]
    names = sorted({curve.entrant for curve in drawn})
    key, height = legend(
        [(stroke(styles[name]), name) for name in names], BOX.left, BOX.bottom + 56, BOX.right - BOX.left, styles
    )
    axes = frame(BOX, x, y, labels.x, labels.y)
    return Figure(name, title, WIDTH, int(BOX.bottom + 50 + height), group([*axes, *lines, key]))


def board_curves(board: BoardTable) -> list[Curve]:
    """Return for each entrant the mean of its normalised learning curves over the tasks of a board that have a scale.
    An entrant that lacks one of these tasks has none: means over other tasks do not compare."""
    tables = [{row.entrant: row.gain.curve for row in table.rows if row.gain} for table in board.tasks]
    scaled = [table for table in tables if any(table.values())]
    entrants = sorted({label for table in scaled for label in table})
    budget = board.conditions.get(BUDGET, 0)
    return [
        Curve(label, f"mean over {len(scaled)} tasks", mean_steps([curve for curve in curves if curve]), budget)
        for label in entrants
        if all(curves := [table.get(label) for table in scaled])
    ]


def _line(curve: Curve, x: Axis, y: Axis, style: EntrantStyle, unit: str) -> Markup:
    shape = element(
        "path", d=_steps(curve, x, y), fill="none", stroke=style.colour, stroke_width=2.0, stroke_dasharray=style.dash
    )
    dots = [element("circle", cx=x(at), cy=y(height), r=2.6, fill=style.colour) for at, height in curve.points]
    at, height = curve.points[-1]
    text = f"{curve.entrant}, {curve.name}: {number(height)} after {number(at)} {unit}"
    return group([tooltip(text, style.about), shape, *dots])


def _steps(curve: Curve, x: Axis, y: Axis) -> str:
    (first, height), *later = curve.points
    parts = [f"M{x(first):.1f} {y(height):.1f}"]
    parts += [f"H{x(at):.1f}V{y(height):.1f}" for at, height in later]
    return "".join(parts) + f"H{x(max(curve.end, curve.points[-1][0])):.1f}"
