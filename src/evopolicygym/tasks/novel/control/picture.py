"""The picture of a generated control task: balls on hills, joined by springs, above a gauge."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.tasks.novel.drawing import Canvas, Colour

if TYPE_CHECKING:  # the family's module imports this one
    from evopolicygym.tasks.novel.control.world import System

WIDTH: Final = 360
HEIGHT: Final = 240
PAPER: Final = (250, 250, 247)
GROUND: Final = (226, 224, 214)
SPRING: Final = (150, 150, 145)
TARGET: Final = (214, 84, 61)
INK: Final = (40, 40, 40)
GAUGE: Final = 40.0  # pixels below the hills


@dataclass(frozen=True)
class Hill:
    """The potential of one mass in the picture, below ``top`` and ``size`` high. It shows places from -``reach`` to
    ``reach``, and a mass beyond them at the edge."""

    well: float
    wave: float
    top: float
    size: float
    reach: float

    def place(self, x: float) -> float:
        return (x - WIDTH / 2) * self.reach / (WIDTH / 2)

    def x(self, place: float) -> float:
        return WIDTH / 2 * (1.0 + max(-0.96, min(0.96, place / self.reach)))

    def y(self, place: float) -> float:
        depth = 0.5 - 0.5 * math.copysign(1.0, self.well) * math.cos(self.wave * place)
        return self.top + self.size * (0.45 + 0.5 * depth)


def control_picture(system: System, position: Any, step: int, colour: Colour) -> Any:
    """Draw each mass as a ball on the hills of its potential; on the gauge a red disc where the driven mixture of
    positions should be, and a dark one where it is."""
    canvas, reach = Canvas(WIDTH, HEIGHT, PAPER), 2.0 + 1.5 * abs(system.target)
    row = (HEIGHT - GAUGE) / len(position)
    hills = [
        Hill(float(well), float(wave), row * number, row, reach)
        for number, (well, wave) in enumerate(zip(system.well, system.wave, strict=True))
    ]
    for hill in hills:
        for column in range(WIDTH):
            surface = hill.y(hill.place(column))
            canvas.rectangle((column, surface), 1, hill.top + row - surface, GROUND)
    radius = min(12.0, 0.22 * row)
    places = [float(place) for place in position]
    balls = [(hill.x(place), hill.y(place) - radius) for hill, place in zip(hills, places, strict=True)]
    for first, second in itertools.pairwise(balls):
        canvas.line(first, second, SPRING, 1.5)
    for x, y in balls:
        canvas.disc((x, y), radius, colour)
        canvas.disc((x - 0.3 * radius, y - 0.3 * radius), 0.3 * radius, PAPER)
    middle = HEIGHT - GAUGE / 2
    canvas.rectangle((20, middle - 3), WIDTH - 40, 6, GROUND)
    for value, shade, size in ((system.wanted(step), TARGET, 10.0), (float(position @ system.driven), INK, 5.0)):
        canvas.disc((WIDTH / 2 + (WIDTH / 2 - 30) * math.tanh(value / reach), middle), size, shade)
    return canvas.pixels()
