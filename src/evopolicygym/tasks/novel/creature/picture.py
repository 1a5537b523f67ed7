"""Pictures of generated creatures: a side view of body and ground that follows the creature."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from evopolicygym.tasks.novel.creature.body import Aim
from evopolicygym.tasks.novel.world import Canvas, Colour, Point

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.creature.world import CreatureEnv

WIDTH: Final = 400
HEIGHT: Final = 240
SOIL: Final = 190  # row of the ground
METRE: Final = 110.0  # in pixels


@dataclass(frozen=True)
class CreaturePalette:
    """The colours of a world."""

    sky: Colour
    soil: Colour
    bump: Colour
    torso: Colour
    near: Colour
    far: Colour
    mark: Colour


def draw_palette(generator: np.random.Generator) -> CreaturePalette:
    hue, skin, mark = generator.uniform(0.0, 1.0, 3)
    return CreaturePalette(
        sky=_colour(hue, 0.12, 0.99),
        soil=_colour(hue + 0.45, 0.35, 0.55),
        bump=_colour(hue + 0.45, 0.35, 0.48),
        torso=_colour(skin, 0.65, 0.75),
        near=_colour(skin + 0.04, 0.6, 0.88),
        far=_colour(skin, 0.5, 0.5),
        mark=_colour(mark, 0.85, 0.85),
    )


def draw_picture(env: CreatureEnv) -> Any:
    """Return a side view: of a body in a plane along it, of one in space along its heading."""
    return _Picture(env).pixels()


class _Picture:
    def __init__(self, env: CreatureEnv) -> None:
        self._env, self._palette = env, env.world.palette
        turned = 0.0 if env.world.body.flat else env.world.heading
        self._along, self._centre = (math.cos(turned), math.sin(turned)), 0.0
        self._centre = self._distance(*env.position())
        self._canvas = Canvas(WIDTH, HEIGHT, self._palette.sky)

    def pixels(self) -> Any:
        canvas, env, palette = self._canvas, self._env, self._palette
        for x, y, radius, depth in env.world.body.bumps:
            canvas.disc((self._x(x, y), SOIL + METRE * depth), METRE * radius, palette.bump)
        canvas.rectangle((0, SOIL), WIDTH, HEIGHT - SOIL, palette.soil)
        self._ticks()
        self._flag()
        model, data = env.world.model, env.data
        geoms = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] != 0]
        for geom in sorted(geoms, key=lambda geom: -self._depth(data.geom_xpos[geom])):
            self._part(geom)
        return canvas.pixels()

    def _part(self, geom: int) -> None:
        model, data, palette = self._env.world.model, self._env.data, self._palette
        place, axis = data.geom_xpos[geom], data.geom_xmat[geom][2::3]
        radius, half = model.geom_size[geom][:2]
        start, end = self._point(place - half * axis), self._point(place + half * axis)
        behind = self._depth(place) > self._depth(data.xpos[1]) + 0.02
        if model.geom_bodyid[geom] == 1:
            colour = palette.torso
        elif geom == self._env.load_geom:
            colour = palette.mark
        else:
            colour = palette.far if behind else palette.near
        self._canvas.line(start, end, (40, 40, 46), 2.0 * METRE * radius + 3.0)
        self._canvas.line(start, end, colour, 2.0 * METRE * radius)
        if model.geom_bodyid[geom] == 1:  # an eye, at the end that is the front
            forward = data.xmat[1][0::3]
            front = self._point(place + (half + 0.3 * radius) * forward + np.array((0.0, 0.0, 0.3 * radius)))
            self._canvas.disc(front, 4.0, (250, 250, 250))
            self._canvas.disc(front, 2.0, (20, 20, 20))

    def _ticks(self) -> None:
        """Draw a mark at every metre, so that one sees how far a creature comes."""
        first = math.floor(self._centre - 0.5 * WIDTH / METRE)
        for metre in range(first, first + math.ceil(WIDTH / METRE) + 2):
            x = 0.5 * WIDTH + METRE * (metre - self._centre)
            size = 14 if metre % 5 == 0 else 6
            self._canvas.line((x, SOIL + 4), (x, SOIL + 4 + size), self._palette.sky, 2.0)

    def _flag(self) -> None:
        """Draw the place to go to, at the edge if it is outside, or an arrow in the direction to go."""
        env, canvas, mark = self._env, self._canvas, self._palette.mark
        if env.world.aim is Aim.PLACES:
            x = min(max(self._x(*env.place), 12.0), WIDTH - 12.0)
            canvas.line((x, SOIL), (x, SOIL - 60), (40, 40, 46), 3.0)
            for row in range(18):
                canvas.line((x + 2, SOIL - 60 + row), (x + 2 + 1.2 * min(row, 18 - row), SOIL - 60 + row), mark)
            return
        way = math.copysign(1.0, self._distance(*env.position()) - self._distance(*_before(env)))
        x, y = 0.5 * WIDTH, 20.0
        canvas.line((x - 25 * way, y), (x + 25 * way, y), mark, 4.0)
        for side in (-1, 1):
            canvas.line((x + 25 * way, y), (x + 13 * way, y + 9 * side), mark, 4.0)

    def _distance(self, x: float, y: float) -> float:
        return x * self._along[0] + y * self._along[1]

    def _x(self, x: float, y: float) -> float:
        return 0.5 * WIDTH + METRE * (self._distance(x, y) - self._centre)

    def _depth(self, place: Any) -> float:
        return float(place[1] * self._along[0] - place[0] * self._along[1])

    def _point(self, place: Any) -> Point:
        return self._x(float(place[0]), float(place[1])), SOIL - METRE * float(place[2])


def _before(env: CreatureEnv) -> tuple[float, float]:
    """Return the point behind the creature, seen in the direction that it should go."""
    (x, y), heading = env.position(), env.world.heading
    return x - math.cos(heading), y - math.sin(heading)


def _colour(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue % 1.0, saturation, value))
    return red, green, blue
