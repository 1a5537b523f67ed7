"""Pictures of generated games: sprites, colours and backgrounds. Nothing here follows from a game's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.novel.world import brightness

SIDE: Final = 64  # of a picture, in pixels
PAD: Final = 10  # around a picture, so that sprites at its edge need no clipping
WIDE: Final = SIDE + 2 * PAD
HEADINGS: Final = 8  # steps of 45 degrees, the first to the right, then clockwise as seen
UNIT: Final = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Sprite:
    """A small bitmap. ``size`` is the side of the square that touches; ``pixels`` may be larger."""

    size: int
    pixels: Array
    mask: Array

    @cached_property
    def grey(self) -> Sprite:
        """The sprite's brightness."""
        return Sprite(self.size, brightness(self.pixels), self.mask[:, :, 0])

    def rows(self) -> str:
        """Return the bitmap as text: a letter for every colour, a dot where the background shows."""
        colours: dict[str, str] = {}
        lines = []
        for row, visible in zip(self.pixels, self.mask[:, :, 0], strict=True):
            names = ("#" + bytes(pixel).hex() if shown else "" for pixel, shown in zip(row, visible, strict=True))
            lines.append("".join(colours.setdefault(n, chr(65 + len(colours))) if n else "." for n in names))
        return f"{'/'.join(lines)} with {', '.join(f'{letter} = {name}' for name, letter in colours.items())}"


@dataclass(frozen=True, eq=False)
class Background:
    """A picture that repeats after ``SIDE`` pixels, ready for cutting. It moves by ``rate`` pixels in 4 steps."""

    pixels: Array
    rate: int
    is_vertical: bool

    @cached_property
    def grey(self) -> Background:
        """The brightness of the background."""
        return Background(brightness(self.pixels), self.rate, self.is_vertical)

    def at(self, step: int) -> Array:
        """Return a copy of what lies behind the sprites at a step, with the padding around it."""
        start = step * self.rate // 4 % SIDE
        rows, columns = (start, 0) if self.is_vertical else (0, start)
        return self.pixels[rows : rows + WIDE, columns : columns + WIDE].copy()


class SpritePalette:
    """Draws colours that can be told apart from each other and from the background."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self.background = generator.integers(20, 236, 3)
        self._used: list[Array] = []

    def colour(self) -> Array:
        """Return a colour that is unlike all before it."""
        least = 90.0
        while True:
            colour = self._generator.integers(0, 256, 3)
            others = [float(np.linalg.norm(colour - other)) for other in self._used]
            if np.linalg.norm(colour - self.background) >= 110 and min(others, default=least) >= least:
                self._used.append(colour)
                return colour.astype(np.uint8)
            least *= 0.99


def draw_sprite(generator: np.random.Generator, palette: SpritePalette, size: int) -> Sprite:
    """Draw a symmetric shape of two colours."""
    half = size // 2 + 1
    while True:
        cells = generator.choice(3, (size, half), p=(0.3, 0.5, 0.2))
        cells[size // 2, -1] = 1
        cells = np.concatenate((cells, cells[:, -2::-1]), axis=1)
        sides = (cells[0], cells[-1], cells[:, 0], cells[:, -1])
        if np.count_nonzero(cells) >= 0.6 * size * size and all(side.any() for side in sides):
            break
    colours = np.stack((np.zeros(3, np.uint8), palette.colour(), generator.integers(0, 256, 3).astype(np.uint8)))
    return _sprite(size, colours[cells], cells > 0)


def draw_square(palette: SpritePalette, size: int) -> Sprite:
    """Draw a filled square of a new colour."""
    return _sprite(size, np.tile(palette.colour(), (size, size, 1)), np.ones((size, size), bool))


def with_noses(sprite: Sprite, colour: Array) -> list[Sprite]:
    """Return a sprite for every heading: each has a nose of a colour at the side to which it points."""
    pixels, mask = (np.pad(part, ((1, 1), (1, 1), (0, 0))) for part in (sprite.pixels, sprite.mask))
    noses = []
    for x, y in UNIT:
        turned, shown = pixels.copy(), mask.copy()
        row, column = (len(pixels) // 2 + sprite.size // 2 * step for step in (y, x))
        turned[row - 1 : row + 2, column - 1 : column + 2] = colour
        shown[row - 1 : row + 2, column - 1 : column + 2] = True
        noses.append(Sprite(sprite.size, turned, shown))
    return noses


def draw_background(generator: np.random.Generator, palette: SpritePalette, may_move: bool) -> Background:
    """Draw a plain, chequered, smooth or grainy background around the palette's colour."""
    across = np.arange(SIDE)
    pattern = generator.integers(4)
    if pattern == 0:
        shade = np.zeros((SIDE, SIDE))
    elif pattern == 1:
        width, height = 2 ** generator.integers(1, 5, 2)
        shade = ((across // width)[None, :] + (across // height)[:, None]) % 2 * 2.0 - 1.0
    elif pattern == 2:
        waves = [
            np.cos(2 * np.pi * generator.integers(1, 4) * across / SIDE + generator.uniform(0, 6.28)) for _ in "xy"
        ]
        shade = 0.5 * (waves[0][None, :] + waves[1][:, None])
    else:
        shade = np.tile(generator.uniform(-1, 1, (16, 16)), (4, 4))
    tint = generator.uniform(-20, 20, 3)
    tile = np.clip(np.rint(palette.background + shade[:, :, None] * tint), 0, 255).astype(np.uint8)
    rate, is_vertical = int(generator.integers(1, 5)) * may_move, bool(generator.integers(2))
    return Background(np.tile(tile, (4, 4, 1))[SIDE - PAD :, SIDE - PAD :], rate, is_vertical)


def compose(frame: Array, sprites: Iterable[tuple[Sprite, int, int]]) -> Array:
    """Draw sprites with their centres at (x, y) on a padded frame, and return the picture without the padding."""
    copyto = np.copyto
    for sprite, x, y in sprites:
        pixels = sprite.pixels
        size = len(pixels)
        left, top = x + PAD - size // 2, y + PAD - size // 2
        copyto(frame[top : top + size, left : left + size], pixels, where=sprite.mask)
    return frame[PAD:-PAD, PAD:-PAD].copy()


def _sprite(size: int, pixels: Array, mask: Array) -> Sprite:
    return Sprite(size, pixels.astype(np.uint8), np.repeat(mask[:, :, None], 3, axis=2))
