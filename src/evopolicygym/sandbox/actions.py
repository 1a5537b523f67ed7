"""The trusted end of actions: bytes become the action that the environment gets, or the episode fails."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evopolicygym.sandbox.codec import ARRAYS, INT64, Schema, action_size, shape_of, wire_dtype
from evopolicygym.sandbox.failures import ErrorKind, PolicyFailure


def action_decoder(schema: Schema) -> Callable[[bytearray, int], tuple[Any, int]]:
    """Bytes to the action that the environment gets, and how many of its numbers had to be clipped (0 or 1 per action).

    NaN, infinities and integers out of range are refused; Box values outside the bounds are clipped."""
    kind = schema["type"]
    if kind in ARRAYS:
        return _box_decoder(schema)
    if kind == "Discrete":
        return _discrete_decoder(int(schema["start"]), int(schema["n"]))
    spaces = schema["spaces"]
    named = list(spaces.items()) if isinstance(spaces, Mapping) else list(enumerate(spaces))
    parts = [(key, action_decoder(space), action_size(space)) for key, space in named]

    def decode(buffer: bytearray, offset: int) -> tuple[Any, int]:
        values, clipped = {}, 0
        for key, part, size in parts:
            values[key], one = part(buffer, offset)
            clipped, offset = clipped | one, offset + size
        return (values if kind == "Dict" else tuple(values.values())), clipped

    return decode


def _discrete_decoder(start: int, n: int) -> Callable[[bytearray, int], tuple[Any, int]]:
    def decode(buffer: bytearray, offset: int) -> tuple[int, int]:
        action: int = INT64.unpack_from(buffer, offset)[0]
        if not start <= action < start + n:
            raise PolicyFailure(
                ErrorKind.INVALID_ACTION, f"the action must be an integer from {start} to {start + n - 1}, got {action}"
            )
        return action, 0

    return decode


def _box_decoder(schema: Schema) -> Callable[[bytearray, int], tuple[Any, int]]:
    dtype, wire, shape = np.dtype(schema["dtype"]), wire_dtype(schema), shape_of(schema)
    low, high = (np.broadcast_to(bound, shape).astype(wire) for bound in bounds(schema))
    limits = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
    numbers = struct.Struct(f"<{len(limits)}{wire.char if wire.kind == 'f' else 'q'}")

    def decode(buffer: bytearray, offset: int) -> tuple[Any, int]:
        action = np.frombuffer(buffer, wire, len(limits), offset).reshape(shape).astype(wire)
        # Plain comparisons: for the few numbers of an action faster than numpy. False for NaN.
        for number, (lowest, highest) in zip(numbers.unpack_from(buffer, offset), limits, strict=True):
            if not lowest <= number <= highest:
                return _clipped(action, low, high).astype(dtype, copy=False), 1
        return action.astype(dtype, copy=False), 0

    return decode


def _clipped(action: Any, low: Any, high: Any) -> Any:
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
