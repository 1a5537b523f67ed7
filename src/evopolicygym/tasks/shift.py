"""The shift of a task: which of its rules change in the shifted variant, within which bounds, and how values are drawn.

A task file lists the changes in its table ``[[shift]]`` (docs/shifted.md). The values come from the secret key of the
variant: the same for all cases of a run, or with ``per = "case"`` another one for every case."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

MOST_ENTRIES: Final = 64  # of an order: enough for any discrete action space that a permutation makes sense for
TWO_64: Final = 2**64


class ShiftKind(StrEnum):
    """Kinds of changes."""

    ATTRIBUTE = "attribute"  # multiplies, adds to or sets attributes of the environment
    ACTION_ORDER = "action_order"  # gives entries of a Box, or actions of a Discrete space, each other's meaning
    ACTION_SIGN = "action_sign"  # reverses entries of a Box by chance; of several, at least one
    ACTION_GAIN = "action_gain"  # multiplies entries of a Box
    ACTION_OFFSET = "action_offset"  # adds to entries of a Box
    ACTION_DELAY = "action_delay"  # carries actions out so many steps later
    OBSERVATION_NOISE = "observation_noise"  # adds Gaussian noise of this standard deviation
    OBSERVATION_MASK = "observation_mask"  # shows zeros
    KEY_COLOURS = "key_colours"  # MiniGrid: a key of another colour opens a door
    DOOR_TOGGLES = "door_toggles"  # MiniGrid: a locked door opens only at this toggle
    LAYOUT = "layout"  # MiniGrid: 1 mirrors the map left to right, 2 top to bottom, 3 both


WHOLE: Final = (ShiftKind.ACTION_DELAY, ShiftKind.DOOR_TOGGLES, ShiftKind.LAYOUT)
WITHOUT_BOUNDS: Final = (
    ShiftKind.ACTION_ORDER,
    ShiftKind.ACTION_SIGN,
    ShiftKind.OBSERVATION_MASK,
    ShiftKind.KEY_COLOURS,
)


@dataclass(frozen=True)
class ShiftParameter:
    """One change of a task's rules. ``entries`` is an index into the action, or into the observations of ``keys``, as
    numpy writes it (empty: all); ``paths`` are the attributes of the environment that change. ``each`` path, or each
    entry of them, can have a value of its own. ``after_reset`` is for attributes of what every reset makes anew."""

    name: str
    kind: ShiftKind
    low: float = 0.0
    high: float = 0.0
    per: Literal["run", "case"] = "run"
    each: Literal["", "path", "entry"] = ""
    entries: str = ""
    keys: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    by: Literal["factor", "added", "value"] = "factor"
    after_reset: bool = False
    neutral: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a shift needs a name")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"shift {self.name}: low and high must be finite, low not above high")
        if (self.kind is ShiftKind.ATTRIBUTE) != bool(self.paths):
            raise ValueError(f"shift {self.name}: paths belong to the kind attribute, which needs them")
        if self.kind not in WITHOUT_BOUNDS and self.low == self.high == 0.0:
            raise ValueError(f"shift {self.name}: the kind {self.kind} needs low and high")
        if self.kind in WHOLE and not (self.low.is_integer() and self.high.is_integer() and self.low >= 0):
            raise ValueError(f"shift {self.name}: low and high of the kind {self.kind} must be whole numbers from 0")


@dataclass(frozen=True)
class ShiftDraw:
    """The values of one parameter under one key and, if it differs from case to case, for one case. They depend on
    nothing else: neither on the version of a library nor on the other parameters."""

    parameter: ShiftParameter
    key: bytes
    seed: int | None = None

    def number(self, entry: int = 0, path: int = 0) -> float:
        """Return a number within the bounds: of one path or entry where each has its own, else of all."""
        parameter = self.parameter
        path, entry = (path if parameter.each else 0), (entry if parameter.each == "entry" else 0)
        share = int.from_bytes(self.digest(f"{path}|{entry}")[:8], "big") / TWO_64
        if parameter.kind in WHOLE:
            return parameter.low + math.floor(share * (parameter.high - parameter.low + 1))
        return parameter.low + share * (parameter.high - parameter.low)

    def order(self, size: int) -> list[int]:
        """Return an order of ``size`` entries in which none is in its own place."""
        if not 2 <= size <= MOST_ENTRIES:
            raise ValueError(f"shift {self.parameter.name}: {size} entries cannot change places (2 to {MOST_ENTRIES})")
        attempt = 0
        while True:
            keys = [self.digest(f"{attempt}|{entry}") for entry in range(size)]
            order = sorted(range(size), key=keys.__getitem__)
            if all(entry != position for position, entry in enumerate(order)):
                return order
            attempt += 1

    def signs(self, size: int) -> list[int]:
        """Return 1 or -1 for each entry; of several, at least one is -1."""
        signs = [-1 if self.digest(f"{entry}")[0] & 1 else 1 for entry in range(size)]
        if -1 not in signs and size > 1:
            signs[self.digest("one")[0] % size] = -1
        return signs

    def noise_seed(self) -> int:
        """Return the seed of this parameter's noise, another one for every case."""
        text = f"evopolicygym shift noise|{self.parameter.name}|{self.seed}"
        return int.from_bytes(hmac.new(self.key, text.encode(), hashlib.sha256).digest(), "big")

    def digest(self, name: str) -> bytes:
        """Return random bytes that belong to a part of this parameter."""
        case = self.seed if self.parameter.per == "case" else "run"
        text = f"evopolicygym shift|{self.parameter.name}|{case}|{name}"
        return hmac.new(self.key, text.encode(), hashlib.sha256).digest()


def draw_shift(shift: tuple[ShiftParameter, ...], key: bytes, seed: int | None) -> tuple[ShiftDraw, ...]:
    """Return the values of all parameters for the case with this seed."""
    return tuple(ShiftDraw(parameter, key, seed) for parameter in shift)
