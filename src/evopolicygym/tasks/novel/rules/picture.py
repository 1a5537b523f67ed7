"""The picture of a generated grid world: all rooms, bright where the agent sees them, and what it holds."""

from __future__ import annotations

import colorsys
import math
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.tasks.novel.rules.chain import FLOOR, NOTHING, WALL, Role
from evopolicygym.tasks.novel.world import Canvas, Colour, Point

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.rules.world import RulesEnv

TILE: Final = 28
BAR: Final = 40
DIM: Final = 0.55  # of what the agent does not see
INK: Final = (38, 36, 44)
PAPER: Final = (244, 240, 230)
GOLD: Final = (240, 182, 40)
AGENT_COLOUR: Final = (58, 110, 200)


def draw_picture(env: RulesEnv) -> Any:
    """Return the picture of an environment as an array of colours."""
    picture = _Picture(env)
    picture.draw_cells()
    picture.draw_agent()
    picture.draw_bar()
    return picture.canvas.pixels()


class _Picture:
    def __init__(self, env: RulesEnv) -> None:
        self._env, self._world, self._plan = env, env.world, env.world.plan
        width, height = self._plan.width * TILE, self._plan.height * TILE
        self._height = height
        self.canvas = Canvas(width, height + BAR, INK)
        self._base = _bright(self._world.hues[FLOOR], 0.10, 0.93)
        self._wall = _bright(self._world.hues[WALL], 0.35, 0.42)

    def draw_cells(self) -> None:
        env, plan, roles = self._env, self._plan, self._world.book.roles
        agent_y, agent_x = divmod(env.place, plan.stride)
        for y in range(plan.height):
            for x in range(plan.width):
                cell = plan.cell(x, y)
                kind, row, column = env.cells[cell], *divmod(cell, plan.stride)
                seen = max(abs(row - agent_y), abs(column - agent_x)) <= plan.margin
                light = 1.0 if seen else DIM
                corner = (x * TILE, y * TILE)
                if kind == WALL:
                    self._draw_wall(corner, light)
                    continue
                self._fill(corner, 0, _lit(self._base, 0.94 * light))
                self._fill(corner, 1, _lit(self._base, light))
                if kind != FLOOR:
                    self._draw_thing((corner[0] + TILE / 2, corner[1] + TILE / 2), kind, roles[kind], light)

    def draw_agent(self) -> None:
        env, canvas = self._env, self.canvas
        row, column = divmod(env.place, self._plan.stride)
        x, y = ((value - self._plan.margin + 0.5) * TILE for value in (column, row))
        dx, dy = ((0, -1), (1, 0), (0, 1), (-1, 0))[env.facing]
        canvas.disc((x + 1, y + 2), TILE * 0.36, _lit(self._base, 0.7))
        canvas.disc((x, y), TILE * 0.36, (150, 150, 158) if env.stun else AGENT_COLOUR)
        for side in (-1, 1):
            eye = (x + 5 * dx + 4 * side * dy, y + 5 * dy + 4 * side * dx)
            canvas.disc(eye, 3.2, PAPER)
            canvas.disc((eye[0] + 1.3 * dx, eye[1] + 1.3 * dy), 1.6, INK)
        if env.held != NOTHING:
            self._draw_item((x + TILE * 0.3, y + TILE * 0.3), env.held, 5.0, 1.0)

    def draw_bar(self) -> None:
        """Draw what is held, the links that are reached, and the time."""
        env, canvas, width = self._env, self.canvas, self._plan.width * TILE
        middle = self._height + BAR / 2 - 3
        canvas.disc((22, middle), 14, (70, 66, 78))
        if env.held != NOTHING:
            self._draw_item((22, middle), env.held, 9.0, 1.0)
        for link in range(self._world.book.depth):
            reached = env.links >> link & 1
            canvas.disc((54 + 20 * link, middle), 7, GOLD if reached else (84, 80, 92))
        past = width * env.clock / self._world.horizon
        canvas.rectangle((0, self._height + BAR - 6), width, 6, (70, 66, 78))
        canvas.rectangle((0, self._height + BAR - 6), past, 6, (214, 84, 61))

    def _fill(self, corner: Point, inset: float, colour: Colour) -> None:
        side = TILE - 2 * inset
        self.canvas.rectangle((corner[0] + inset, corner[1] + inset), side, side, colour)

    def _draw_wall(self, corner: Point, light: float) -> None:
        self._fill(corner, 0, _lit(self._wall, 0.8 * light))
        canvas, (x, y) = self.canvas, corner
        for row in range(2):
            for start, length in ((0, TILE),) if row else ((0, TILE // 2), (TILE // 2, TILE // 2)):
                top = y + row * TILE / 2 + 1
                canvas.rectangle((x + start + 1, top), length - 2, TILE / 2 - 2, _lit(self._wall, light))

    def _draw_thing(self, centre: Point, kind: int, role: Role, light: float) -> None:
        canvas, (x, y) = self.canvas, centre
        bright = _lit(_bright(self._world.hues[kind], 0.62, 0.86), light)
        dark = _lit(_bright(self._world.hues[kind], 0.75, 0.5), light)
        match role:
            case Role.SOURCE:
                for leaf in range(5):
                    turn = 2 * math.pi * leaf / 5 - math.pi / 2
                    canvas.disc((x + 6.5 * math.cos(turn), y + 6.5 * math.sin(turn)), 5.5, bright)
                canvas.disc(centre, 4, dark)
            case Role.STATION:
                self._box(centre, 11, dark)
                self._box(centre, 8.5, bright)
                self._box(centre, 3.5, dark)
            case Role.GROWING:
                canvas.line((x, y + 10), (x, y - 3), dark, 3)
                for side in (-1, 1):
                    canvas.line((x, y + 4), (x + 8 * side, y - 2), dark, 3)
                canvas.disc((x, y - 5), 6, bright)
            case Role.GATE:
                for bar in (-9, -3, 3, 9):
                    canvas.line((x + bar, y - 12), (x + bar, y + 12), dark, 3)
                for bar in (-7, 7):
                    canvas.line((x - 12, y + bar), (x + 12, y + bar), bright, 2.5)
            case Role.LEVER:
                canvas.rectangle((x - 9, y + 4), 18, 6, dark)
                canvas.line((x, y + 4), (x + 7, y - 7), dark, 3)
                canvas.disc((x + 7, y - 8), 4, bright)
            case Role.BLOCK:
                self._box(centre, 12, dark)
                self._box(centre, 10, bright)
                canvas.line((x - 8, y - 8), (x + 8, y + 8), dark, 2.5)
                canvas.line((x - 8, y + 8), (x + 8, y - 8), dark, 2.5)
            case Role.PAD:
                canvas.disc(centre, 11, bright)
                canvas.disc(centre, 8, _lit(self._base, light))
                canvas.disc(centre, 4, bright)
            case Role.HAZARD:
                for spike in range(8):
                    angle = math.pi * spike / 4
                    canvas.line(centre, (x + 11 * math.cos(angle), y + 11 * math.sin(angle)), dark, 3)
                canvas.disc(centre, 6, bright)
            case Role.GOAL:
                self._draw_star(centre, 12, _lit(GOLD, light), dark)

    def _draw_item(self, centre: Point, kind: int, radius: float, light: float) -> None:
        hue = self._world.hues[kind]
        self.canvas.disc(centre, radius, _lit(_bright(hue, 0.75, 0.45), light))
        self.canvas.disc(centre, radius - 1.5, _lit(_bright(hue, 0.6, 0.95), light))
        self.canvas.disc((centre[0] - radius / 3, centre[1] - radius / 3), radius / 4, PAPER)

    def _draw_star(self, centre: Point, radius: float, colour: Colour, ring: Colour) -> None:
        self.canvas.disc(centre, radius, ring)
        tips = [
            (centre[0] + radius * math.sin(turn), centre[1] - radius * math.cos(turn))
            for turn in (2 * math.pi * tip / 5 for tip in range(5))
        ]
        for tip in range(5):
            self.canvas.line(tips[tip], tips[(tip + 2) % 5], colour, 3)
        self.canvas.disc(centre, radius / 2.4, colour)

    def _box(self, centre: Point, half: float, colour: Colour) -> None:
        self.canvas.rectangle((centre[0] - half, centre[1] - half), 2 * half, 2 * half, colour)


def _bright(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, saturation, value))
    return red, green, blue


def _lit(colour: Colour, light: float) -> Colour:
    red, green, blue = (round(part * light) for part in colour)
    return red, green, blue
