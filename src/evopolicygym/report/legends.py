"""What the lines and marks of a figure mean, in rows below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from evopolicygym.report.scales import Look
from evopolicygym.report.svg import group, hint, line, words
from evopolicygym.report.widths import width as width_of
from evopolicygym.report.widths import within

ROW: Final = 18
LONGEST: Final = 330  # pixels


def legend(entries: Sequence[tuple[Markup, str]], left: float, top: float, width: float) -> tuple[Markup, float]:
    """Marks are drawn about the origin, 20 pixels wide. Gives the height that it needs, too."""
    placed, x, y = [], left, top
    for mark, name in entries:
        text = within(name, LONGEST)
        needs = 28 + width_of(text) + 8
        if x > left and x + needs > left + width:
            x, y = left, y + ROW
        moved = group([mark], transform=f"translate({x + 10:g} {y:g})")
        placed.append(group([hint(name), moved, words(x + 26, y + 4, text)]))
        x += needs
    return group(placed), y - top + ROW


def stroke(look: Look) -> Markup:
    return line(-10, 0, 10, 0, stroke=look.colour, stroke_width=2.5, stroke_dasharray=look.dash)
