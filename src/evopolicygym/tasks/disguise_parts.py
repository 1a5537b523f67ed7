"""Parts of a disguise: how numbers are shown, and the exact way back.

A part shows a few leaves of a space, its own values, as other leaves. ``show`` leads from own to shown values, ``read``
back. Everything is drawn from a key, and a shown value depends on nothing but the key and the own values, so that
results repeat to the bit. Nothing here needs more than numpy."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Leaf = dict[str, Any]  # the schema of a space that is neither a Dict nor a Tuple
T = TypeVar("T")

LARGEST_EXPONENT: Final = 3  # numbers are scaled by 1, 2, 4 or 8
MOST_SCALES: Final = 512  # entries; a longer vector is scaled as a whole


class Draws:
    """Numbers drawn from a key: the same on every machine and with every version of numpy."""

    def __init__(self, key: bytes, label: str) -> None:
        self._key, self._label, self._drawn = key, label, 0

    def _stream(self, size: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_256(self._key + f"|{self._label}|{self._drawn}".encode()).digest(size)

    def below(self, n: int) -> int:
        """Draw a number from 0 to n - 1."""
        return int.from_bytes(self._stream(16), "big") % n

    def many_below(self, n: int, count: int) -> list[int]:
        """Draw several such numbers, each a few bits at most."""
        return list(map(int, np.frombuffer(self._stream(8 * count), "<u8") % n))

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        order = np.argsort(np.frombuffer(self._stream(8 * len(items)), "<u8"), kind="stable")
        return [items[index] for index in order]

    def bit(self) -> bool:
        return self.below(2) == 1

    def secret(self) -> bytes:
        return self._stream(32)


class Part(Protocol):
    """Shows some leaves as others. ``spaces`` are the shown ones."""

    spaces: list[Leaf]

    def show(self, own: list[Any]) -> list[Any]: ...

    def read(self, shown: list[Any]) -> list[Any]: ...


class Numbers:
    """Arrays of one type, joined: entries in another order, some with the other sign, floats scaled by powers of two,
    with further entries between them (constants, copies and noise; ignored in an action), and cut into pieces."""

    def __init__(self, draws: Draws, leaves: list[Leaf], for_action: bool) -> None:
        self._dtype, self._shapes = np.dtype(leaves[0]["dtype"]), [tuple(leaf["shape"]) for leaf in leaves]
        self._starts = np.cumsum([0, *map(math.prod, self._shapes)]).tolist()
        limits = [pair for leaf in leaves for pair in _limits(leaf)]
        size, self._is_float = len(limits), self._dtype.kind == "f"
        extra = 1 + draws.below(2) if for_action else 2 + draws.below(min(8, max(2, size // 3)))
        likes = [draws.below(size) if size else -1 for _ in range(extra)]  # an added entry has the bounds of another
        kinds = [draws.choice(_kinds(for_action, self._is_float, size)) for _ in likes]
        limits += [limits[like] if size else (0, 1) for like in likes]
        added = enumerate(zip(likes, kinds, strict=True))
        sources = [*range(size), *(like if kind == "copy" else size + n for n, (like, kind) in added)]
        constants = [_constant(draws, pair, self._is_float, for_action) for pair in limits[size:]]
        order = draws.shuffled(range(size + extra))
        exponents = draws.many_below(LARGEST_EXPONENT + 1, len(order))
        if size > MOST_SCALES:  # one for all keeps the description of the space short
            exponents = exponents[:1] * len(order)
        self._template = np.array([0] * size + constants, self._dtype)
        noisy = [size + n for n, kind in enumerate(kinds) if kind == "noise"]
        self._noise = [(index, draws.below(2**32) | 1, _span(limits[index])) for index in noisy]
        self._salt = draws.below(2**32)
        self._from = np.array([sources[index] for index in order], np.intp)
        self._positions = np.argsort(np.array(order))[:size]
        flips = np.array(draws.many_below(2, len(order)), bool)
        self._values = ValueMap(self._dtype, [limits[index] for index in order], flips, exponents, exact=for_action)
        self._back = self._values.at(self._positions)
        self._pieces = [slice(None)] if for_action else _pieces(draws, len(order))
        kind = "MultiBinary" if leaves[0]["type"] == "MultiBinary" else "Box"
        self.spaces = [self._values.space(kind, np.arange(len(order))[piece]) for piece in self._pieces]

    def show(self, own: list[Any]) -> list[Any]:
        source = self._template.copy()
        for value, shape, start in zip(own, self._shapes, self._starts[:-1], strict=True):
            array = fitting(value, self._dtype, shape)
            source[start : start + array.size] = array.ravel()
        if self._noise:
            seen = crc32(source.tobytes(), self._salt)
            for index, odd, span in self._noise:
                source[index] = (((seen * odd) % 2**32 >> 8) / 2.0**23 - 1.0) * span
        shown = self._values.show(source[self._from])
        return [shown[piece] for piece in self._pieces]

    def read(self, shown: list[Any]) -> list[Any]:
        joined = np.concatenate([np.asarray(piece, self._dtype).ravel() for piece in shown])
        flat = self._back.read(joined[self._positions])
        parts = zip(self._starts[:-1], self._starts[1:], self._shapes, strict=True)
        return [flat[start:end].reshape(shape) for start, end, shape in parts]


class ValueMap:
    """Exact changes of the values of an array, entry by entry: floats times plus or minus a power of two, integers
    reflected within their bounds."""

    def __init__(
        self, dtype: np.dtype[Any], limits: list[tuple[Any, Any]], flips: Array, exponents: list[int], exact: bool
    ) -> None:
        """``exact`` keeps the bounds as tight as they are; otherwise those of floats become powers of two."""
        self._dtype, self._limits, self._flips, self._exact = dtype, limits, flips, exact
        self._exponents = [0 if _overflows(pair, dtype) else e for pair, e in zip(limits, exponents, strict=True)]
        self._is_float = dtype.kind == "f"
        if self._is_float:
            self._factor = np.where(flips, -1.0, 1.0).astype(dtype) * np.array([2.0**e for e in self._exponents], dtype)
            self._inverse = (1 / self._factor).astype(dtype)
        else:
            self._unsigned = np.dtype(f"u{dtype.itemsize}")
            sums = [(int(low) + int(high)) % 2 ** (8 * dtype.itemsize) for low, high in limits]
            self._sums = np.array(sums, self._unsigned)

    def at(self, indices: Array) -> ValueMap:
        """Return the map of some of the entries."""
        limits, exponents = ([values[index] for index in indices] for values in (self._limits, self._exponents))
        return ValueMap(self._dtype, limits, self._flips[indices], exponents, self._exact)

    def show(self, values: Array) -> Array:
        return values * self._factor if self._is_float else self._reflected(values)

    def read(self, values: Array) -> Array:
        return values * self._inverse if self._is_float else self._reflected(values)

    def _reflected(self, values: Array) -> Array:
        bits = values.view(self._unsigned)
        return np.where(self._flips, self._sums - bits, bits).view(self._dtype)

    def space(self, kind: str, indices: Array) -> Leaf:
        """Return the space of the shown entries with these indices."""
        shape = {"type": kind, "shape": [len(indices)], "dtype": str(self._dtype)}
        if kind == "MultiBinary":
            return shape | {"n": len(indices)}
        shown = [self._shown_limits(index) for index in indices]
        return shape | {"low": compact([low for low, _ in shown]), "high": compact([high for _, high in shown])}

    def bounds(self) -> tuple[Any, Any]:
        """Return bounds that hold for every shown entry."""
        lows, highs = zip(*map(self._shown_limits, range(len(self._limits))), strict=True)
        return min(lows), max(highs)

    def _shown_limits(self, index: int) -> tuple[Any, Any]:
        low, high = self._limits[index]
        if not self._is_float:
            return int(low), int(high)
        factor = 2.0 ** self._exponents[index]
        if not self._exact:
            reach = _power_above((max(abs(low), abs(high)) or 1.0) * factor, self._dtype)
            return -reach, reach
        return (-high * factor, -low * factor) if self._flips[index] else (low * factor, high * factor)


def fitting(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return a value as an array of its space. Raises ValueError if it has another shape."""
    array = np.asarray(value, dtype)
    if array.shape != shape:
        raise ValueError(f"it has shape {array.shape}, not {shape}")
    return array


def compact(numbers: list[Any]) -> Any:
    """Return the bound of a Box: one number if all agree."""
    return numbers[0] if numbers and numbers.count(numbers[0]) == len(numbers) else numbers


def _limits(leaf: Leaf) -> list[tuple[Any, Any]]:
    """Return the bounds of each entry of an array."""
    low, high = (leaf["low"], leaf["high"]) if leaf["type"] == "Box" else (0, 1)
    shape, dtype = tuple(leaf["shape"]), np.dtype(leaf["dtype"])
    if 0 in shape:
        return []
    number = np.dtype(np.float64) if dtype.kind == "f" else np.dtype(object)
    lows, highs = (np.broadcast_to(np.array(bound, number), shape).ravel().tolist() for bound in (low, high))
    return list(zip(lows, highs, strict=True))


def _kinds(for_action: bool, is_float: bool, size: int) -> tuple[str, ...]:
    if for_action or not size:
        return ("constant",)
    return ("constant", "copy", "noise") if is_float else ("constant", "copy")


def _constant(draws: Draws, pair: tuple[Any, Any], is_float: bool, for_action: bool) -> Any:
    """Draw a constant within bounds. In an action, where it is ignored, it is zero or the bound next to it."""
    low, high = pair
    if not is_float:
        return int(low) + draws.below(int(high) - int(low) + 1)
    if for_action:
        return min(max(0.0, low), high)
    span = _span(pair)
    return span * (draws.below(129) - 64) / 64


def _span(pair: tuple[Any, Any]) -> float:
    """Return how far from zero an added entry may be: as far as the one whose bounds it has."""
    reach = float(max(abs(pair[0]), abs(pair[1])))
    return reach if 0.0 < reach < 1e6 else 1.0


def _overflows(pair: tuple[Any, Any], dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "f":
        return False
    finite = [abs(bound) for bound in pair if math.isfinite(bound)]
    return any(bound > float(np.finfo(dtype).max) / 2**LARGEST_EXPONENT for bound in finite)


def _power_above(reach: float, dtype: np.dtype[Any]) -> float:
    """Return the next power of two that is not below; infinity if the type has none."""
    if not math.isfinite(reach):
        return math.inf
    mantissa, exponent = math.frexp(reach)
    power = math.ldexp(1.0, exponent - (mantissa == 0.5))
    return power if power <= float(np.finfo(dtype).max) else math.inf


def _pieces(draws: Draws, size: int) -> list[slice]:
    """Draw how a vector is cut into one to three pieces."""
    count = 1 + draws.below(3) if size >= 6 else 1
    cuts = sorted(draws.shuffled(range(1, size))[: count - 1])
    return [slice(start, end) for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
