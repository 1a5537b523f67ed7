"""The trusted end of actions: bytes become the action that the environment gets, or the episode fails."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from evopolicygym.sandbox.codec import ARRAYS, INT64, Schema, action_size, shape_of, wire_dtype
from evopolicygym.sandbox.failures import ErrorKind, PolicyFailure

FINITE: Final = sys.float_info.max
Decoder = Callable[[bytearray, int], Any]


class Clipped:
    """How many actions had to be clipped."""

    count = 0


def action_decoder(schema: Schema, clipped: Clipped) -> Decoder:
    """From bytes at an offset to the action that the environment gets.

    NaN, infinities and integers out of range are refused; Box values outside the bounds are clipped, and counted once
    for each action."""
    kind = schema["type"]
    if kind in ARRAYS:
        return _box_decoder(schema, clipped)
    if kind == "Discrete":
        return _discrete_decoder(int(schema["start"]), int(schema["n"]))
    spaces = schema["spaces"]
    named = list(spaces.items()) if isinstance(spaces, Mapping) else list(enumerate(spaces))
    parts = [(key, action_decoder(space, clipped), action_size(space)) for key, space in named]

    def decode(buffer: bytearray, offset: int) -> Any:
        values, before = {}, clipped.count
        for key, part, size in parts:
            values[key] = part(buffer, offset)
            offset += size
        clipped.count = min(clipped.count, before + 1)
        return values if kind == "Dict" else tuple(values.values())

    return decode


def _discrete_decoder(start: int, n: int) -> Decoder:
    unpack, end = INT64.unpack_from, start + n

    def decode(buffer: bytearray, offset: int) -> int:
        action: int = unpack(buffer, offset)[0]
        if start <= action < end:
            return action
        raise PolicyFailure(
            ErrorKind.INVALID_ACTION, f"the action must be an integer from {start} to {end - 1}, got {action}"
        )

    return decode


def _box_decoder(schema: Schema, clipped: Clipped) -> Decoder:
    dtype, wire, shape = np.dtype(schema["dtype"]), wire_dtype(schema), shape_of(schema)
    low, high = (np.broadcast_to(bound, shape).astype(wire) for bound in bounds(schema))
    pairs = zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)
    limits = [(max(lowest, -FINITE), min(highest, FINITE)) for lowest, highest in pairs]
    count, plain = len(limits), len(shape) == 1 and wire is dtype
    unpack = struct.Struct(f"<{count}{wire.char if wire.kind == 'f' else 'q'}").unpack_from
    frombuffer = np.frombuffer

    def decode(buffer: bytearray, offset: int) -> Any:
        action = frombuffer(buffer, wire, count, offset).copy()
        # Plain comparisons: for the few numbers of an action faster than numpy. False for NaN.
        for number, (lowest, highest) in zip(unpack(buffer, offset), limits, strict=False):
            if not lowest <= number <= highest:
                clipped.count += 1
                return _clip(schema["type"], action.reshape(shape), low, high).astype(dtype, copy=False)
        return action if plain else action.reshape(shape).astype(dtype, copy=False)

    return decode


def _clip(kind: str, action: Any, low: Any, high: Any) -> Any:
    if kind != "Box":
        bounds_text = f"from {low.tolist()} to {high.tolist()}"
        raise PolicyFailure(ErrorKind.INVALID_ACTION, f"the action must be {bounds_text}, got {action.tolist()}")
    if not np.isfinite(action).all():
        raise PolicyFailure(ErrorKind.INVALID_ACTION, f"the action must be finite numbers, got {action.tolist()}")
    return np.clip(action, low, high)


def bounds(schema: Schema) -> tuple[Any, Any]:
    """Lowest and highest values of an array space."""
    if schema["type"] == "Box":
        return schema["low"], schema["high"]
    if schema["type"] == "MultiBinary":
        return 0, 1
    start = np.asarray(schema["start"])
    return start, start + np.asarray(schema["nvec"]) - 1
