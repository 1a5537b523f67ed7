"""Shared parts of the families of generated tasks: what every task consists of (an environment, an expert that knows
its rules, and the texts about it), and a canvas for its pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

Act = Callable[[Any], Any]  # from an observation to an action
Colour = tuple[int, int, int]
Point = tuple[float, float]


class World(Protocol):
    """One drawn task. It follows from the generator and the level alone; its cases differ by the seed of ``reset``.

    ``horizon`` is the number of steps after which an episode is truncated, ``failure_return`` a return below which no
    way of playing on can fall."""

    horizon: int
    failure_return: float

    def make(self, render_mode: str | None = None) -> Any:
        """Return a new Gymnasium environment. With ``rgb_array`` it can draw itself. Where its attribute ``observes``
        is set to False it may return None for observations, and where ``grey`` is set to True the ``brightness`` of
        pictures, which saves time."""

    def expert(self, env: Any) -> Act:
        """Return the best known way to play an environment that was just reset. It may read the environment's state.
        A world may also have ``experts``, which gets several environments of whole episodes, and returns a function
        for the next actions in all of them: so numpy can plan for all at once."""

    def texts(self) -> dict[str, Any]:
        """Return fields of ``Task``: the texts that describe this world to an agent, at every level."""


class WorldFamily(Protocol):
    """A module or sub-package of this package. ``VERSION`` changes whenever the same key would draw another task."""

    VERSION: int

    def draw(self, generator: np.random.Generator, level: int) -> World: ...


GREY: Final = np.arange(3 * 255 + 1) / 3 / 255.0  # by the sum of a pixel's three colours


def brightness(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the mean of the three colours of each pixel of bytes, from 0 to 1. Adding them as integers takes a fifth
    of the time of their mean, and gives the same bits."""
    sums = picture[..., 0].astype(np.uint16)
    sums += picture[..., 1]
    sums += picture[..., 2]
    return GREY.take(sums)


class Canvas:
    """A picture that is drawn on. Points are (x, y), from the upper left; what lies outside is cut off."""

    def __init__(self, width: int, height: int, background: Colour) -> None:
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._pixels[:] = background

    def pixels(self) -> Any:
        return self._pixels

    def rectangle(self, corner: Point, width: float, height: float, colour: Colour) -> None:
        x, y = (max(0, round(value)) for value in corner)
        self._pixels[y : max(0, round(corner[1] + height)), x : max(0, round(corner[0] + width))] = colour

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        rows, columns, inside = self._near(centre, radius)
        self._pixels[rows, columns][inside] = colour

    def line(self, start: Point, end: Point, colour: Colour, width: float = 1.5) -> None:
        steps = max(1, math.ceil(2 * math.dist(start, end)))
        for step in range(steps + 1):
            part = step / steps
            point = (start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))
            self.disc(point, width / 2, colour)

    def _near(self, centre: Point, radius: float) -> tuple[slice, slice, Any]:
        """Return the part of the picture around a point, and which of its pixels are within the radius."""
        (x, y), (height, width) = centre, self._pixels.shape[:2]
        rows = slice(max(0, math.floor(y - radius)), min(height, math.ceil(y + radius) + 1))
        columns = slice(max(0, math.floor(x - radius)), min(width, math.ceil(x + radius) + 1))
        down, across = np.ogrid[rows, columns]
        return rows, columns, (across - x) ** 2 + (down - y) ** 2 <= max(radius, 0.5) ** 2
