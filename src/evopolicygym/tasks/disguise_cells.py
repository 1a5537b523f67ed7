"""Pictures and grids of codes in disguise: mirrored, transposed, padded, with other channels and other values.

Neighbours stay neighbours, so that what is to be seen can still be seen, in other colours or codes. Nothing here needs
more than numpy."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.disguise_parts import Array, Draws, Leaf, ValueMap, fitting

GRID: Final = "grid"  # cells with codes: types, colours, states
PICTURE: Final = "picture"  # pixels
NUMBERS: Final = "numbers"  # entries that have no place in a plane
KINDS: Final = (GRID, PICTURE, NUMBERS)
SMALLEST_PICTURE: Final = 32  # pixels on a side
FEW_CODES: Final = 16
BYTES: Final = 256
MOST_PADDING: Final = {GRID: 2, PICTURE: 12}  # rows or columns on each side


def kind_of(leaf: Leaf) -> str:
    """Return what a Box is by its shape and type, unless the task file says so."""
    if leaf["type"] != "Box" or len(leaf["shape"]) not in (2, 3) or 0 in leaf["shape"]:
        return NUMBERS
    if min(_sides(leaf["shape"])) >= SMALLEST_PICTURE:
        return PICTURE
    return GRID if leaf["dtype"] == "uint8" and len(leaf["shape"]) == 3 and leaf["shape"][2] <= 4 else NUMBERS


def _channel_axis(shape: list[int]) -> int:
    """Return the axis of the channels: the shortest, the last of equally short ones."""
    return max(range(3), key=lambda axis: (-shape[axis], axis))


def _sides(shape: list[int]) -> list[int]:
    return [side for axis, side in enumerate(shape) if len(shape) == 2 or axis != _channel_axis(shape)]


class Cells:
    """One picture or grid."""

    def __init__(self, draws: Draws, leaf: Leaf, kind: str) -> None:
        self._dtype, self._own_shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
        self._axis = _channel_axis(leaf["shape"]) if len(leaf["shape"]) == 3 else None
        height, width = _sides(leaf["shape"])
        count = 1 if self._axis is None else leaf["shape"][self._axis]
        copies = [draws.below(count)] if kind == GRID and draws.bit() else []
        channels = draws.shuffled([*range(count), *copies])
        self._channels, self._back = np.array(channels), np.array([channels.index(own) for own in range(count)])
        self._is_transposed, self._steps = draws.bit(), (draws.choice((1, -1)), draws.choice((1, -1)))
        rows, columns = (width, height) if self._is_transposed else (height, width)
        most = MOST_PADDING[kind]
        top, left = draws.below(most + 1), draws.below(most + 1)
        bottom, right = draws.below(most + 1) + (top == 0), draws.below(most + 1) + (left == 0)
        self._inside = np.s_[top : top + rows, left : left + columns]
        self._values = _value_map(draws, leaf, kind, len(channels))
        low, high = _bounds(leaf)
        border = np.full((top + rows + bottom, left + columns + right, len(channels)), min(max(0, low), high))
        self._border = self._values.show(border.astype(self._dtype))
        sizes = self._border.shape
        layouts = [[math.prod(sizes)], [sizes[0] * sizes[1], sizes[2]], [sizes[2], *sizes[:2]]]
        layout = draws.below(len(layouts)) if kind == GRID else None
        self._is_channel_first = layout == len(layouts) - 1
        self._shape = list(sizes[: 2 if self._axis is None else 3]) if layout is None else layouts[layout]
        low, high = self._values.bounds()
        self.spaces = [{"type": "Box", "shape": self._shape, "dtype": leaf["dtype"], "low": low, "high": high}]

    def show(self, own: list[Any]) -> list[Any]:
        cells = fitting(own[0], self._dtype, self._own_shape)
        cells = cells[:, :, None] if self._axis is None else np.moveaxis(cells, self._axis, 2)
        cells = cells.transpose(1, 0, 2) if self._is_transposed else cells
        shown = self._border.copy()
        shown[self._inside] = self._values.show(cells[:: self._steps[0], :: self._steps[1], self._channels])
        if self._is_channel_first:
            shown = np.ascontiguousarray(shown.transpose(2, 0, 1))
        return [shown.reshape(self._shape)]

    def read(self, shown: list[Any]) -> list[Any]:
        sizes, whole = self._border.shape, np.asarray(shown[0], self._dtype)
        if self._is_channel_first:
            cells = whole.reshape(sizes[2], *sizes[:2]).transpose(1, 2, 0)[self._inside]
        else:
            cells = whole.reshape(sizes)[self._inside]
        cells = self._values.read(cells)[:: self._steps[0], :: self._steps[1], self._back]
        cells = cells.transpose(1, 0, 2) if self._is_transposed else cells
        cells = cells[:, :, 0] if self._axis is None else np.moveaxis(cells, 2, self._axis)
        return [np.ascontiguousarray(cells)]


class CodeTables:
    """Other codes for bytes, with a table for each channel. Codes below ``FEW_CODES`` stay below it."""

    def __init__(self, draws: Draws, channels: int) -> None:
        halves = range(FEW_CODES), range(FEW_CODES, BYTES)
        tables = np.array([[code for half in halves for code in draws.shuffled(half)] for _ in range(channels)])
        self._offsets = np.arange(channels) * BYTES
        self._shown = tables.astype(np.uint8).ravel()
        self._own = np.argsort(tables, axis=1).astype(np.uint8).ravel()

    def show(self, cells: Array) -> Array:
        return self._shown[cells + self._offsets]

    def read(self, cells: Array) -> Array:
        return self._own[cells + self._offsets]

    def bounds(self) -> tuple[int, int]:
        return 0, BYTES - 1


class Palette:
    """Other colours, with similar ones still similar: the bytes of each channel count from another start, upwards or
    downwards."""

    def __init__(self, draws: Draws, channels: int) -> None:
        self._starts = np.array(draws.many_below(BYTES, channels), np.uint8)
        self._steps = np.array([draws.choice((1, BYTES - 1)) for _ in range(channels)], np.uint8)

    def show(self, cells: Array) -> Array:
        return cells * self._steps + self._starts  # modulo 256, as all arithmetic of bytes

    def read(self, cells: Array) -> Array:
        return (cells - self._starts) * self._steps

    def bounds(self) -> tuple[int, int]:
        return 0, BYTES - 1


def _value_map(draws: Draws, leaf: Leaf, kind: str, channels: int) -> CodeTables | Palette | ValueMap:
    if leaf["dtype"] == "uint8":
        return CodeTables(draws, channels) if kind == GRID else Palette(draws, channels)
    flips, exponents = np.array(draws.many_below(2, channels), bool), draws.many_below(4, channels)
    return ValueMap(np.dtype(leaf["dtype"]), [_bounds(leaf)] * channels, flips, exponents, exact=False)


def _bounds(leaf: Leaf) -> tuple[Any, Any]:
    """Return bounds that hold for every entry."""
    return np.min(leaf["low"]).item(), np.max(leaf["high"]).item()
