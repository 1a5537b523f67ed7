"""Arithmetic with exactly the results of highway-env's numpy, at the speed of plain Python.

Only operations that IEEE 754 rounds the same way everywhere (+ - * / % sqrt, comparisons) are done in Python. For the
others numpy has its own kernels (SVML, BLAS with fused multiply-add) whose last bit differs from the C library's, so
numpy is called, one number at a time, as highway-env does. Some of numpy's functions are plain after all (sine and
cosine are the C library's, the second power is a product): that is tested here once, and where it does not hold numpy
is called for these as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

PI: Final = math.pi
TAU: Final = 2 * math.pi

tan: Final[Any] = np.tan
arctan: Final[Any] = np.arctan
arcsin: Final[Any] = np.arcsin
arctan2: Final[Any] = np.arctan2
power: Final[Any] = np.power
sqrt: Final = math.sqrt


def _plain(quick: Callable[[float], float], numpys: Any, tested: Any) -> Callable[[float], float]:
    """Return ``quick`` if it equals numpy's function for every tested number, otherwise numpy's function itself."""
    same = numpys(tested).tolist() == [quick(x) for x in tested.tolist()]
    return quick if same else lambda x: float(numpys(x))


def _product(x: float) -> float:
    return x * x


_SMALL: Final = np.linspace(-8.0, 8.0, 8001) + np.linspace(0.0, 1e-3, 8001) ** 2
_TESTED: Final = np.concatenate([_SMALL, _SMALL / 999, _SMALL * 101])

sin: Final = _plain(math.sin, np.sin, _TESTED)
cos: Final = _plain(math.cos, np.cos, _TESTED)
square: Final = _plain(_product, lambda x: np.power(x, 2), _TESTED)  # ``np.power(x, 2)``


class Pairs:
    """Products of vectors of two numbers by the same BLAS call that numpy makes (it may fuse multiply and add)."""

    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first = np.zeros(2)
        self.second = np.zeros(2)

    def dot(self, ax: float, ay: float, bx: float, by: float) -> float:
        """``np.dot([ax, ay], [bx, by])``."""
        first, second = self.first, self.second
        first[0], first[1], second[0], second[1] = ax, ay, bx, by
        return float(first.dot(second))

    def norm(self, x: float, y: float) -> float:
        """``np.linalg.norm([x, y])``: numpy takes the root of the vector's product with itself."""
        first = self.first
        first[0], first[1] = x, y
        return sqrt(first.dot(first))


def not_zero(x: float) -> float:
    """highway_env/utils.py not_zero."""
    if abs(x) > 1e-2:
        return x
    return 1e-2 if x >= 0 else -1e-2


def clip(x: float, low: float, high: float) -> float:
    """``np.clip`` of a number that is not NaN."""
    return low if x < low else min(x, high)
