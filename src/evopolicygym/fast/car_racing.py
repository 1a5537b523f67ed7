"""CarRacing-v3, fast: the same pixels with less drawing.

Stock spends nine tenths of a step on its 96 x 96 observation: it transforms some 800 polygons in Python (about 25 of
them can be seen), loads a font, and allocates, flips and shrinks surfaces of 1000 x 800. Here numpy transforms the
polygons, those that cannot change a pixel are left out, font and surface are kept, and the flip comes when the picture
is only 96 pixels wide. What is drawn is drawn by the same pygame functions, with the same numbers, in the same order.
The wheels (``Car.step``) work on plain floats. World, contacts, rewards and track generation are stock's.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pygame
from gymnasium.envs.box2d.car_dynamics import (
    ENGINE_POWER,
    FRICTION_LIMIT,
    SIZE,
    WHEEL_MOMENT_OF_INERTIA,
    WHEEL_R,
    WHEEL_W,
    WHEEL_WHITE,
    Car,
)
from gymnasium.envs.box2d.car_racing import (
    GRASS_DIM,
    MAX_SHAPE_DIM,
    PLAYFIELD,
    SCALE,
    STATE_H,
    STATE_W,
    WINDOW_H,
    WINDOW_W,
    ZOOM,
    CarRacing,
)
from numpy.typing import NDArray
from pygame import gfxdraw
from pygame.math import Vector2

Floats = NDArray[np.float64]
StockCar: Any = Car
Stock: Any = CarRacing

# Rows that the indicators cover. They are the first rows here, because everything is drawn before the flip.
BAR: Final = WINDOW_H // 8
CELL_W, CELL_H = WINDOW_W // 40, WINDOW_H // 40  # the grid of the indicators
# From the car to the farthest corner of the picture, in pixels, with a margin for rounding.
REACH: Final = math.hypot(WINDOW_W / 2, WINDOW_H * 3 / 4) + 4
# A polygon is drawn if one of its corners is within these (stock's rule) ...
NEAR_LOW: Final = -MAX_SHAPE_DIM
NEAR_HIGH: Final = np.array([WINDOW_W + MAX_SHAPE_DIM, WINDOW_H + MAX_SHAPE_DIM])[:, None, None]
# ... and seen only if it reaches a pixel outside the indicators. An antialiased line touches one row beyond its ends.
SEEN_LOW: Final = np.array([0, BAR - 1])[:, None]
SEEN_HIGH: Final = np.array([WINDOW_W - 1, WINDOW_H - 1])[:, None]
FIELD: Final = PLAYFIELD * np.array([[1, 1, -1, -1], [1, -1, -1, 1]])
STIFFNESS: Final = 205000 * SIZE * SIZE
GRASS_LIMIT: Final = FRICTION_LIMIT * 0.6


def upgrade(env: Any) -> None:
    """Make a stock ``CarRacing`` fast, before its first reset."""
    env.__class__ = FastCarRacing
    env.prepare()


class Camera:
    """The camera of one frame: turn, zoom and shift, from the world to pixels (before the flip)."""

    def __init__(self, zoom: float, shift: Any, angle: float) -> None:
        """pygame turns (1, 0) into exactly the cosine and sine by which it turns every other vector."""
        self.zoom, (self.shift_x, self.shift_y) = zoom, shift
        self.cos, self.sin = Vector2(1, 0).rotate_rad(angle)

    def pixels(self, points: Floats, turned: Floats) -> Floats:
        """``Vector2(x, y).rotate_rad(angle) * zoom + shift`` for points (x, y) along the first axis, by the same
        operations on doubles. ``turned`` is (-y, x): ``c * x + s * -y`` equals ``c * x - s * y`` as a change of sign is
        exact, and ``c * y + s * x`` equals ``s * x + c * y`` as the order of two terms does not matter."""
        moved = self.cos * points
        moved += self.sin * turned
        moved *= self.zoom
        moved[0] += self.shift_x
        moved[1] += self.shift_y
        return moved


def quarter_turn(points: Floats) -> Floats:
    return np.array((-points[1], points[0]))


class TrackGround:
    """Grass and road of one track as arrays: (x, y), corner, polygon, in the order in which stock draws them."""

    def __init__(self, road_poly: list[Any], grass_color: Any, road: list[Any]) -> None:
        """Replaces the color of each tile (in ``road`` and in ``road_poly``) by a row of one array, equal in value, so
        that what ``FrictionDetector`` paints when a wheel touches a tile is seen here too."""
        patches = grass_patches()
        self.points = np.array(patches + [poly for poly, _ in road_poly]).T.copy()
        self.turned = quarter_turn(self.points)
        x, y = self.points.mean(axis=1)
        radius = np.hypot(*(self.points - self.points.mean(axis=1, keepdims=True))).max(axis=0)
        self.circles = np.column_stack((x, y, radius, x * x + y * y - radius * radius))
        self.colors = np.array([grass_color] * len(patches) + [color for _, color in road_poly], dtype=np.float64)
        tiles = iter(road)
        for i, (poly, color) in enumerate(road_poly):
            if isinstance(color, np.ndarray):  # a tile, not a border
                row = self.colors[len(patches) + i]
                next(tiles).color = row
                road_poly[i] = (poly, row)

    def visible(self, view: Camera, x: float, y: float) -> zip[tuple[Any, Any]]:
        """Corners and color of each polygon that can change a pixel outside the indicators; the car is at (x, y).

        ``CarRacing._draw_colored_polygon`` draws a polygon if one corner is near the window. If it lies beyond the
        corners of the window (by the distance of its circle: ``|center - car| < radius + reach``, squared and sorted by
        what is known beforehand), or all of it to one side, this changes nothing: ``filled_polygon`` clips every row,
        ``aapolygon`` rejects every line. gfxdraw cuts coordinates and colors to whole numbers, like the casts here.
        """
        reach = REACH / view.zoom
        near = np.flatnonzero(self.circles @ (-2 * x, -2 * y, -2 * reach, 1) < reach * reach - x * x - y * y)
        exact = view.pixels(self.points.take(near, axis=2), self.turned.take(near, axis=2))
        corners = exact.astype(np.int64)
        close = (exact >= NEAR_LOW) & (exact <= NEAR_HIGH)
        seen = (corners.max(axis=1) >= SEEN_LOW) & (corners.min(axis=1) <= SEEN_HIGH)
        drawn = (close[0] & close[1]).any(axis=0) & seen[0] & seen[1]
        colors = self.colors[near[drawn]].astype(np.int64)
        return zip(corners[:, :, drawn].T.tolist(), colors.tolist(), strict=True)


def grass_patches() -> list[Any]:
    """The patches that ``CarRacing._render_road`` makes anew for every frame."""
    edges = [(GRASS_DIM * i + 0, GRASS_DIM * i + GRASS_DIM) for i in range(-20, 20, 2)]
    return [[(x2, y1), (x1, y1), (x1, y2), (x2, y2)] for x1, x2 in edges for y1, y2 in edges]


class Silhouette:
    """The polygons of one car: corners in the frame of their bodies, in single precision as in Box2D."""

    def __init__(self, car: Any) -> None:
        self.wheels, self.bodies = car.wheels, car.drawlist
        shapes = [(i, f.shape.vertices) for i, body in enumerate(self.bodies) for f in body.fixtures]
        mark = [(-WHEEL_W * SIZE, 0), (+WHEEL_W * SIZE, 0), (+WHEEL_W * SIZE, 0), (-WHEEL_W * SIZE, 0)]
        shapes += [(i, mark) for i in range(len(self.wheels))]
        sizes = [len(corners) for _, corners in shapes]
        ends = np.cumsum(sizes).tolist()
        self.parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self.owner = np.repeat([i for i, _ in shapes], sizes)
        self.local = np.array([c for _, corners in shapes for c in corners], dtype=np.float32).T.copy()
        self.marks = self.local[1, -4 * len(self.wheels) :]
        self.colors = [[int(c * 255) for c in self.bodies[i].color] for i, _ in shapes]

    def draw(self, surface: pygame.Surface, view: Camera) -> None:
        """``Car.draw`` (car_dynamics.py) without particles, which observations do not show."""
        marked = self._turn_marks()
        world = self._world()
        points = view.pixels(world, quarter_turn(world)).T.tolist()
        wheels = len(self.wheels)
        for i in range(wheels):
            pygame.draw.polygon(surface, self.colors[i], points[self.parts[i]])
            if marked[i]:
                pygame.draw.polygon(surface, WHEEL_WHITE, points[self.parts[i - wheels]])
        for i in range(wheels, len(self.parts) - wheels):
            pygame.draw.polygon(surface, self.colors[i], points[self.parts[i]])

    def _turn_marks(self) -> list[bool]:
        """Set the ends of the white mark on each wheel, which is a shape of its own. True where it is seen."""
        marked, ends = [], []
        for wheel in self.wheels:
            a1, a2 = wheel.phase, wheel.phase + 1.2
            over1, over2 = math.sin(a1) > 0, math.sin(a2) > 0
            c1, c2 = math.cos(a1), math.cos(a2)
            y1 = WHEEL_R * (sign(c1) if over1 else c1) * SIZE
            y2 = WHEEL_R * (sign(c2) if over2 else c2) * SIZE
            marked.append(not (over1 and over2))
            ends += [y1, y1, y2, y2]
        self.marks[:] = ends
        return marked

    def _world(self) -> Floats:
        """``body.transform * corner`` for all corners: Box2D's single precision operations in its order."""
        transforms = [body.transform for body in self.bodies]
        parts = [(t.q.c, t.q.s, t.position.x, t.position.y) for t in transforms]
        c, s, x, y = np.array(parts, dtype=np.float32).T[:, self.owner]
        across, along = self.local
        return np.array((c * across - s * along + x, s * across + c * along + y), dtype=np.float64)


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


class FastCar(StockCar):  # type: ignore[misc]
    """``Car`` that computes its wheels with Python's floats in place of numpy's scalars."""

    def gas(self, gas: float) -> None:
        """``Car.gas`` (car_dynamics.py); numpy's ``clip`` of a scalar is two comparisons."""
        wanted = float(min(max(gas, 0.0), 1.0))
        for w in self.wheels[2:4]:
            w.gas += min(wanted - w.gas, 0.1)

    def brake(self, b: float) -> None:
        super().brake(float(b))

    def steer(self, s: float) -> None:
        super().steer(float(s))

    def step(self, dt: float) -> None:
        """``Car.step`` (car_dynamics.py): the same operations in the same order, on the same doubles. numpy's sign,
        square and square root of one number are exact or correctly rounded, and so are those here."""
        for w in self.wheels:
            off = w.steer - w.joint.angle
            w.joint.motorSpeed = sign(off) * min(50.0 * abs(off), 3.0)
            forward, side = w.GetWorldVector((0, 1)), w.GetWorldVector((1, 0))
            (fx, fy), (sx, sy), (vx, vy) = forward, side, w.linearVelocity
            spin(w, dt)
            self.fuel_spent += dt * ENGINE_POWER * w.gas
            f_force = (-(fx * vx + fy * vy) + w.omega * w.wheel_rad) * STIFFNESS
            p_force = -(sx * vx + sy * vy) * STIFFNESS
            force = math.sqrt(f_force * f_force + p_force * p_force)
            limit = GRASS_LIMIT
            for tile in w.tiles:
                limit = max(limit, FRICTION_LIMIT * tile.road_friction)
            self.skid(w, force > 2.0 * limit)
            if force > limit:
                f_force = f_force / force * limit
                p_force = p_force / force * limit
            w.omega -= dt * f_force * w.wheel_rad / WHEEL_MOMENT_OF_INERTIA
            w.ApplyForceToCenter((p_force * sx + f_force * fx, p_force * sy + f_force * fy), True)

    def skid(self, w: Any, skidding: bool) -> None:
        """The trace of a wheel, which only videos show."""
        grass = not w.tiles
        if not skidding:
            w.skid_start = w.skid_particle = None
        elif w.skid_particle and w.skid_particle.grass == grass and len(w.skid_particle.poly) < 30:
            w.skid_particle.poly.append((w.position[0], w.position[1]))
        elif w.skid_start is None:
            w.skid_start = w.position
        else:
            w.skid_particle = self._create_particle(w.skid_start, w.position, grass)
            w.skid_start = None


def spin(w: Any, dt: float) -> None:
    """Engine and brake of one wheel."""
    w.omega += dt * ENGINE_POWER * w.gas / WHEEL_MOMENT_OF_INERTIA / (abs(w.omega) + 5.0)
    if w.brake >= 0.9:
        w.omega = 0.0
    elif w.brake > 0:
        w.omega -= sign(w.omega) * min(15 * w.brake, abs(w.omega))
    w.phase += w.omega * dt


class FastCarRacing(Stock):  # type: ignore[misc]
    """``CarRacing`` that draws its observations with less work."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepare()

    def prepare(self) -> None:
        self.picture = pygame.Surface((WINDOW_W, WINDOW_H))
        self.font: Any = None
        self.score = ""

    def _create_track(self) -> bool:
        """Make the track as stock does, then store its polygons in arrays and its background color in a pixel."""
        if not super()._create_track():
            return False
        self.ground = TrackGround(self.road_poly, self.grass_color, self.road)
        gfxdraw.pixel(self.picture, 0, 0, self.bg_color)
        self.background = self.picture.get_at_mapped((0, 0))
        return True

    def step(self, action: Any) -> Any:
        """Step as stock does. The step without an action is the one at the end of ``reset``, with a new car."""
        if action is None:
            self.car.__class__ = FastCar
            self.silhouette = Silhouette(self.car)
        return super().step(action)

    def _render(self, mode: str) -> Any:
        """Draw the observation; stock draws other modes. As ``CarRacing._render``, but on one surface that is kept, and
        with the flip between the two passes of ``smoothscale``.

        ``smoothscale`` first shrinks every row by itself and then every column, so that turning the rows upside down
        commutes with the first pass. What stock draws after its flip (indicators, score) is drawn upside down here.
        """
        if mode != "state_pixels" or "t" not in self.__dict__:
            return super()._render(mode)
        self.surf = self.picture
        hull = self.car.hull
        x, y = hull.position
        zoom = 0.1 * SCALE * max(1 - self.t, 0) + ZOOM * SCALE * min(self.t, 1)
        shift = Vector2((-x * zoom, -y * zoom)).rotate_rad(-hull.angle)
        view = Camera(zoom, (WINDOW_W / 2 + shift[0], WINDOW_H / 4 + shift[1]), -hull.angle)
        self._draw_ground(view)
        self.silhouette.draw(self.surf, view)
        self._draw_indicators()
        self._draw_score()
        narrow = pygame.transform.smoothscale(self.surf, (STATE_W, WINDOW_H))
        narrow = pygame.transform.flip(narrow, False, True)
        return rows_of(pygame.transform.smoothscale(narrow, (STATE_W, STATE_H)))

    def _render_road(self, zoom: float, translation: Any, angle: float) -> None:
        """``CarRacing._render_road``, for the video."""
        self._draw_ground(Camera(zoom, translation, angle))

    def _draw_ground(self, view: Camera) -> None:
        """Draw field, grass and road. Where the window lies inside the field, filling the field is filling the window
        (by numpy, because SDL's way around the caches makes all that follows slower), but for the indicators' rows."""
        x, y = self.car.hull.position
        if max(abs(x), abs(y)) + REACH / view.zoom < PLAYFIELD:
            pygame.surfarray.pixels2d(self.surf)[:, BAR:] = self.background
        else:
            self.surf.fill(0)
            field = view.pixels(FIELD, quarter_turn(FIELD)).T.tolist()
            gfxdraw.aapolygon(self.surf, field, self.bg_color)
            gfxdraw.filled_polygon(self.surf, field, self.bg_color)
        for corners, color in self.ground.visible(view, x, y):
            gfxdraw.aapolygon(self.surf, corners, color)
            gfxdraw.filled_polygon(self.surf, corners, color)

    def _draw_indicators(self) -> None:
        """``CarRacing._render_indicators`` upside down. Its polygons are upright rectangles, of which ``draw.polygon``
        fills the pixels between the whole parts of their corners, both included."""
        pygame.surfarray.pixels2d(self.surf)[:, :BAR] = 0
        hull, wheels = self.car.hull, self.car.wheels
        vx, vy = hull.linearVelocity
        speed = math.sqrt(vx * vx + vy * vy)
        self._draw_column(5, speed, 0.02, (255, 255, 255))
        self._draw_column(7, wheels[0].omega, 0.01, (0, 0, 255))
        self._draw_column(8, wheels[1].omega, 0.01, (0, 0, 255))
        self._draw_column(9, wheels[2].omega, 0.01, (51, 0, 255))
        self._draw_column(10, wheels[3].omega, 0.01, (51, 0, 255))
        self._draw_line(20, wheels[0].joint.angle, -10.0, (0, 255, 0))
        self._draw_line(30, hull.angularVelocity, -0.8, (255, 0, 0))

    def _draw_column(self, cell: int, value: float, scale: float, color: Any) -> None:
        """``vertical_ind``: from the first cell up, or down if negative."""
        if abs(value) > 1e-4:
            end, foot = int(WINDOW_H - (CELL_H + CELL_H * (scale * value))), WINDOW_H - CELL_H
            lowest = WINDOW_H - 1 - max(end, foot)
            self.surf.fill(color, (cell * CELL_W, lowest, CELL_W + 1, abs(end - foot) + 1))

    def _draw_line(self, cell: int, value: float, scale: float, color: Any) -> None:
        """``horiz_ind``: from the cell to the right, or to the left if negative; two cells high."""
        if abs(value) > 1e-4:
            end, start = int((cell + scale * value) * CELL_W), cell * CELL_W
            lowest = WINDOW_H - 1 - (WINDOW_H - 2 * CELL_H)
            self.surf.fill(color, (min(end, start), lowest, abs(end - start) + 1, 2 * CELL_H + 1))

    def _draw_score(self) -> None:
        """Draw the score upside down, rendered when it changes. A font renders the same text to the same pixels."""
        score = f"{self.reward:04.0f}"
        if score != self.score:
            self.score, self.text = score, self._write(score)
        area = self.text.get_rect()
        area.center = (60, WINDOW_H - WINDOW_H * 2.5 / 40.0)
        self.surf.blit(self.text, (area.left, WINDOW_H - area.bottom))

    def _write(self, score: str) -> pygame.Surface:
        pygame.font.init()
        try:
            text = self.font.render(score, True, (255, 255, 255), (0, 0, 0))
        except (AttributeError, pygame.error):  # no font yet, or pygame was quit in between
            self.font = pygame.font.Font(pygame.font.get_default_font(), 42)
            return self._write(score)
        return pygame.transform.flip(text, False, True)


def rows_of(surface: pygame.Surface) -> NDArray[np.uint8]:
    """``CarRacing._create_image_array``: the same array, of the same layout, copied a channel at a time."""
    columns = pygame.surfarray.pixels3d(surface)
    rows = np.empty((STATE_H, STATE_W, 3), dtype=np.uint8)
    for channel in range(3):
        rows[:, :, channel] = columns[:, :, channel].T
    return rows
