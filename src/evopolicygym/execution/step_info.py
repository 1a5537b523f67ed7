"""The part of an environment's ``info`` that an agent may see: numbers with harmless names that do not tell the seed.

The rule is a list of what is allowed: numbers, truth values and short arrays of them. Texts and objects are not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_NUMBERS: Final = 16  # of one array
MAX_NAMES: Final = 64
MAX_DEPTH: Final = 2
LONGEST_NAME: Final = 60
# Names of random state, of the case, and of private entries. A name is split at anything that is no letter.
HIDDEN_WORDS: Final = {
    *("seed", "seeds", "seeding", "rng", "random", "randomness", "generator", "entropy", "prng", "bitgenerator"),
    *("key", "secret", "salt", "case", "instance", "hash", "spawn"),
}
WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
SEED_OFFSETS: Final = range(-2, 3)  # the action and the observation space are seeded with the next two numbers
HALVES: Final = (2**31, 2**32)  # generators that take fewer bits are given a part of the seed

Numbers = float | NDArray[np.float64]
SCALARS: Final = {float, int, bool, np.float64, np.float32, np.bool_, np.int64, np.int32}


class InfoFilter:
    """Keeps the numbers of ``info`` that may be shown for one case. At most ``MAX_NAMES`` names are taken: the first
    that appear."""

    def __init__(self, seed: int) -> None:
        self._hidden = set(_forms(seed))
        self._allowed: dict[str, bool] = {}

    def numbers(self, info: Any) -> dict[str, Numbers]:
        """Return what may be shown of one step, by name; nested names are joined by dots."""
        shown: dict[str, Numbers] = {}
        for name, value in _entries(info):
            if self._is_allowed(name) and (numbers := self._numbers(value)) is not None:
                shown[name] = numbers
        return shown

    def _numbers(self, value: Any) -> Numbers | None:
        """Return a number or a short array of numbers; None for anything else, and for what tells the seed."""
        try:
            if type(value) in SCALARS:  # nearly all: numpy would take ten times as long
                number = float(value)
                return None if number in self._hidden else number
            if isinstance(value, list | tuple) and len(value) > MAX_NUMBERS:
                return None
            array = np.asarray(value)
            if array.dtype.kind not in "biuf" or not 0 < array.size <= MAX_NUMBERS:
                return None
            floats = array.astype(np.float64)
        except (ValueError, TypeError, OverflowError):
            return None
        return None if self._hidden.intersection(floats.ravel().tolist()) else floats

    def _is_allowed(self, name: str) -> bool:
        if name not in self._allowed:
            if len(self._allowed) >= MAX_NAMES:
                return False
            self._allowed[name] = is_harmless(name)
        return self._allowed[name]


def is_harmless(name: str) -> bool:
    words = {word.lower() for word in WORDS.findall(name)}
    is_private = any(part.startswith("_") for part in name.split("."))
    return 0 < len(name) <= LONGEST_NAME and not is_private and not words & HIDDEN_WORDS


def _entries(info: Any, within: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    if not isinstance(info, Mapping):
        return
    for name, value in info.items():
        if not isinstance(name, str):
            continue
        if isinstance(value, Mapping):
            if depth > 1:
                yield from _entries(value, f"{within}{name}.", depth - 1)
        else:
            yield f"{within}{name}", value


def _forms(seed: int) -> Iterator[float]:
    """Yield the floats that tell the seed: it, its neighbours, its halves, and each as float32."""
    for number in (seed + offset for offset in SEED_OFFSETS):
        for part in (number, *(number % half for half in HALVES), number >> 32, number >> 31):
            if abs(part) > 1:  # 0 and 1 tell nothing, and are the most frequent numbers of all
                yield from (float(part), float(np.float32(part)), -float(part))
