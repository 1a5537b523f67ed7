"""The trusted end of actions: decode and check the bytes that a policy sends, or fail its episode."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from functools import partial
from operator import le
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.sandbox.policy.codec import ARRAYS, INT64, Schema, action_size, array_in, shape_of, wire_dtype
from evopolicygym.sandbox.policy.protocol import ErrorKind, PolicyFailure

FINITE: Final = sys.float_info.max
Decoder = Callable[[], Any]


class Clipped:
    """Counter of actions that had to be clipped."""

    count = 0


def action_decoder(schema: Schema, clipped: Clipped, buffer: bytearray, offset: int) -> Decoder:
    """Return a function that decodes the current content of the buffer into the action for the environment.

    NaN, infinities and integers out of range are refused; Box values outside the bounds are clipped, and counted once
    for each action."""
    kind = schema["type"]
    if kind in ARRAYS:
        return _box_decoder(schema, clipped, buffer, offset)
    if kind == "Discrete":
        return _discrete_decoder(int(schema["start"]), int(schema["n"]), buffer, offset)
    parts: dict[Any, Decoder] = {}
    spaces = schema["spaces"]
    for key, space in spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces):
        parts[key] = action_decoder(space, clipped, buffer, offset)
        offset += action_size(space)

    def decode() -> Any:
        before = clipped.count
        values = {key: part() for key, part in parts.items()}
        clipped.count = min(clipped.count, before + 1)
        return values if kind == "Dict" else tuple(values.values())

    return decode


def _discrete_decoder(start: int, n: int, buffer: bytearray, offset: int) -> Decoder:
    unpack, end = INT64.unpack_from, start + n

    def decode() -> int:
        action: int = unpack(buffer, offset)[0]
        if start <= action < end:
            return action
        raise PolicyFailure(
            ErrorKind.INVALID_ACTION, f"the action must be an integer from {start} to {end - 1}, got {action}"
        )

    return decode


def _box_decoder(schema: Schema, clipped: Clipped, buffer: bytearray, offset: int) -> Decoder:
    dtype, wire, shape = np.dtype(schema["dtype"]), wire_dtype(schema), shape_of(schema)
    low, high = (np.broadcast_to(_wire_bound(bound, wire), shape) for bound in bounds(schema))
    lowest = [max(number, -FINITE) for number in low.ravel().tolist()]
    highest = [min(number, FINITE) for number in high.ravel().tolist()]
    least, most = max(lowest, default=0.0), min(highest, default=0.0)
    unpack = struct.Struct(f"<{len(lowest)}{wire.char if wire.kind == 'f' else 'q'}").unpack_from
    sent = array_in(buffer, offset, wire, shape)
    copy = sent.copy if wire is dtype else partial(sent.astype, dtype)

    def decode() -> Any:
        numbers = unpack(buffer, offset)
        for number in numbers:  # faster than numpy for so few; NaN fails every comparison
            if not least <= number <= most:
                return check_each(numbers)
        return copy()

    def check_each(numbers: tuple[float, ...]) -> Any:
        if all(map(le, lowest, numbers)) and all(map(le, numbers, highest)):
            return copy()
        clipped.count += 1
        return _clip(schema["type"], sent, low, high).astype(dtype)

    return decode


def _wire_bound(bound: Any, wire: np.dtype[Any]) -> NDArray[Any]:
    """Cast a bound. Integers are sent as int64, so larger bounds of a uint64 space are lowered to its maximum."""
    numbers = np.asarray(bound)
    if wire.kind == "i" and numbers.dtype == np.uint64:
        numbers = np.minimum(numbers, np.uint64(2**63 - 1))
    return numbers.astype(wire)


def _clip(kind: str, action: Any, low: Any, high: Any) -> Any:
    if kind != "Box":
        bounds_text = f"from {low.tolist()} to {high.tolist()}"
        raise PolicyFailure(ErrorKind.INVALID_ACTION, f"the action must be {bounds_text}, got {action.tolist()}")
    if not np.isfinite(action).all():
        raise PolicyFailure(ErrorKind.INVALID_ACTION, f"the action must be finite numbers, got {action.tolist()}")
    return np.clip(action, low, high)


def bounds(schema: Schema) -> tuple[Any, Any]:
    """Return the lowest and highest values of an array space."""
    if schema["type"] == "Box":
        return schema["low"], schema["high"]
    if schema["type"] == "MultiBinary":
        return 0, 1
    start = np.asarray(schema["start"])
    return start, start + np.asarray(schema["nvec"]) - 1
