"""Figure 3: the best validation mean so far, over the episodes consumed. One line for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.edits.progress import Point
from evopolicygym.report.legends import legend, stroke
from evopolicygym.report.scales import Box, Look, Scale, fitted, frame
from evopolicygym.report.svg import Figure, element, group, hint
from evopolicygym.report.text import number

WIDTH: Final = 760
BOX: Final = Box(70, 14, 740, 290)


@dataclass(frozen=True)
class Curve:
    """Of one run; it goes on at its last height until ``end``, where no more was consumed."""

    entrant: str
    run: str
    points: tuple[Point, ...]
    end: int


def best_so_far(name: str, title: str, curves: Sequence[Curve], looks: Mapping[str, Look]) -> Figure | None:
    """None when no run has a score."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return None
    x = Scale(0.0, max(curve.end for curve in drawn) or 1.0, BOX.left, BOX.right)
    y = fitted((point.best for curve in drawn for point in curve.points), BOX.bottom, BOX.top)
    axes = frame(BOX, x, y, "episodes consumed", "best validation mean so far")
    lines = [_line(curve, x, y, looks[curve.entrant]) for curve in drawn]
    names = sorted({curve.entrant for curve in drawn})
    key, height = legend([(stroke(looks[one]), one) for one in names], BOX.left, BOX.bottom + 56, BOX.right - BOX.left)
    return Figure(name, title, WIDTH, int(BOX.bottom + 50 + height), group([*axes, *lines, key]))


def _line(curve: Curve, x: Scale, y: Scale, look: Look) -> Markup:
    shape = element(
        "path", d=_steps(curve, x, y), fill="none", stroke=look.colour, stroke_width=2.0, stroke_dasharray=look.dash
    )
    dots = [element("circle", cx=x(p.consumed), cy=y(p.best), r=2.6, fill=look.colour) for p in curve.points]
    final = curve.points[-1]
    text = f"{curve.entrant}, {curve.run}: {number(final.best)} after {final.consumed} episodes"
    return group([hint(text), shape, *dots])


def _steps(curve: Curve, x: Scale, y: Scale) -> str:
    first, *later = curve.points
    parts = [f"M{x(first.consumed):.1f} {y(first.best):.1f}"]
    parts += [f"H{x(point.consumed):.1f}V{y(point.best):.1f}" for point in later]
    return "".join(parts) + f"H{x(max(curve.end, curve.points[-1].consumed)):.1f}"
