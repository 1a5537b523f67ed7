"""What entrants cost and what they score: nobody on the line is beaten in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.leaderboard.build import CostRow
from evopolicygym.report.scales import Box, Look, Scale, fitted, frame
from evopolicygym.report.svg import Figure, element, group, hint, words
from evopolicygym.report.text import number
from evopolicygym.report.widths import within

BOX: Final = Box(70, 14, 740, 290)
Known = tuple[CostRow, float, float]


def cost_pareto(name: str, title: str, rows: Sequence[CostRow], looks: Mapping[str, Look]) -> Figure | None:
    """None when no entrant has both a cost and a score over the whole collection."""
    known = [
        (row, row.cost.dollars, row.score) for row in rows if row.cost.dollars is not None and row.score is not None
    ]
    if not known:
        return None
    x = Scale(0.0, max(dollars for _, dollars, _ in known) * 1.15 or 1.0, BOX.left, BOX.right)
    y = fitted((score for _, _, score in known), BOX.bottom, BOX.top, 0.15)
    axes = frame(BOX, x, y, "dollars per run", "normalised score")
    front = sorted((one for one in known if one[0].pareto), key=lambda one: one[1])
    body = [*axes, _front(front, x, y), *(_dot(*one, x, y, looks[one[0].entrant]) for one in known)]
    return Figure(name, title, 760, 340, group(body))


def _front(front: Sequence[Known], x: Scale, y: Scale) -> Markup:
    """In steps: between two of them, more money buys nothing."""
    (_, dollars, score), *dearer = front
    steps = "".join(f"H{x(cost):.1f}V{y(value):.1f}" for _, cost, value in dearer)
    path = f"M{x(dollars):.1f} {y(score):.1f}{steps}H{BOX.right:g}"
    return element("path", d=path, class_="axis", stroke_dasharray="4 3")


def _dot(row: CostRow, dollars: float, score: float, x: Scale, y: Scale, look: Look) -> Markup:
    text = f"{row.entrant}: {number(score)} for {number(dollars)} dollars"
    left = dollars > x.high * 0.6
    label = words(x(dollars) + (-8 if left else 8), y(score) - 6, within(row.entrant, 300), "end" if left else "start")
    return group([hint(text), element("circle", cx=x(dollars), cy=y(score), r=5, fill=look.colour), label])
