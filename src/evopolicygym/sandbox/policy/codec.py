"""Observations and actions as raw bytes of a fixed layout, both ends built from the same space schema.

Nothing is ever unpickled or evaluated: the length of a frame follows from the schema, and its content is numbers. The
trusted end decodes actions and checks them (``action_decoder.py``); the untrusted end can send nothing but such bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.errors import Fault

Schema = Mapping[str, Any]

TEXT_BYTES: Final = 256
INT64: Final = struct.Struct("<q")
LENGTH: Final = struct.Struct("<I")
ARRAYS: Final = ("Box", "MultiBinary", "MultiDiscrete")


class InvalidAction(Exception):
    """The action has a wrong type or shape. The text tells the author of the policy what came and what was expected."""


def shape_of(schema: Schema) -> tuple[int, ...]:
    return tuple(schema["shape"])


def size_of(schema: Schema) -> int:
    """Return the number of bytes of one observation."""
    kind = schema["type"]
    if kind in ARRAYS:
        return int(_supported(np.dtype(schema["dtype"])).itemsize * math.prod(shape_of(schema)))
    if kind == "Discrete":
        return INT64.size
    if kind == "Text":
        return LENGTH.size + _text_capacity(schema)
    return sum(size_of(space) for _, space in _children(schema))


def observation_encoder(schema: Schema) -> Callable[[Any], bytes]:
    """Trusted end. Casts to the space's own dtype; a wrong shape is an error of the simulator, not of the policy."""
    kind = schema["type"]
    if kind in ARRAYS:
        return _array_encoder(np.dtype(schema["dtype"]), shape_of(schema))
    if kind == "Discrete":
        return lambda value: INT64.pack(int(value))
    if kind == "Text":
        return _text_encoder(_text_capacity(schema))
    parts = [(key, observation_encoder(space)) for key, space in _children(schema)]
    return lambda value: b"".join([encode(value[key]) for key, encode in parts])


def observation_decoder(schema: Schema, frame: bytearray, offset: int) -> Callable[[], Any]:
    """Untrusted end. Returns a function that copies the current content of the frame into an observation."""
    kind = schema["type"]
    if kind in ARRAYS:
        return array_in(frame, offset, np.dtype(schema["dtype"]), shape_of(schema)).copy
    if kind == "Discrete":
        return lambda: INT64.unpack_from(frame, offset)[0]
    if kind == "Text":
        return lambda: _text(frame, offset)
    parts = []
    for key, space in _children(schema):
        parts.append((key, observation_decoder(space, frame, offset)))
        offset += size_of(space)
    if kind == "Tuple":
        return lambda: tuple(decode() for _, decode in parts)
    return lambda: {key: decode() for key, decode in parts}


def array_in(frame: bytearray, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a view into the frame: made once for all steps, because making one costs more than copying it."""
    return np.frombuffer(frame, dtype, math.prod(shape), offset).reshape(shape)


def action_size(schema: Schema) -> int:
    """Return the number of bytes of one action. Integers are sent as int64, so that no cast wraps round before the
    check."""
    kind = schema["type"]
    if kind in ARRAYS:
        return int(wire_dtype(schema).itemsize * math.prod(shape_of(schema)))
    if kind == "Discrete":
        return INT64.size
    return sum(action_size(space) for _, space in _children(schema))


def action_encoder(schema: Schema, name: str = "the action") -> Callable[[Any], bytes]:
    """Untrusted end: checks type and shape, as only here there is an object; the trusted end checks the values."""
    kind = schema["type"]
    if kind in ARRAYS:
        return _array_action_encoder(wire_dtype(schema), shape_of(schema), name)
    if kind == "Discrete":
        return _discrete_action_encoder(schema, name)
    parts = [(key, action_encoder(space, f"{name}[{key!r}]")) for key, space in _children(schema)]

    def encode(action: Any) -> bytes:
        try:
            return b"".join([part(action[key]) for key, part in parts])
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidAction(f"{name} must be a {kind} with {[key for key, _ in parts]}: {error!r}") from error

    return encode


def _supported(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"arrays of {dtype} are not supported")
    return dtype


def wire_dtype(schema: Schema) -> np.dtype[Any]:
    dtype = _supported(np.dtype(schema["dtype"]))
    return dtype if dtype.kind == "f" else np.dtype(np.int64)


def _children(schema: Schema) -> Iterator[tuple[Any, Schema]]:
    if schema["type"] not in ("Dict", "Tuple"):
        raise ValueError(f"spaces of type {schema['type']} are not supported")
    spaces = schema["spaces"]
    yield from spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces)


def _text_capacity(schema: Schema) -> int:
    return max(TEXT_BYTES, 4 * int(schema["max_length"]))


def _text(frame: bytearray, offset: int) -> str:
    start = offset + LENGTH.size
    return frame[start : start + LENGTH.unpack_from(frame, offset)[0]].decode()


def _text_encoder(capacity: int) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        data = str(value).encode()
        if len(data) > capacity:
            raise Fault(f"the simulator gave a text of {len(data)} bytes, but its space says {capacity}")
        return LENGTH.pack(len(data)) + data.ljust(capacity, b"\0")

    return encode


def _array_encoder(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[Any], bytes]:
    """Uses ``tobytes``, which is cheaper than handing an array to the kernel: numpy's buffer protocol is slow."""
    ndarray = np.ndarray

    def encode(value: Any) -> bytes:
        if type(value) is not ndarray or value.dtype is not dtype:
            value = np.asarray(value, dtype)
        if value.shape != shape:
            raise Fault(f"the simulator gave an observation of shape {value.shape}, but its space says {shape}")
        data: bytes = value.tobytes()
        return data

    return encode


def _array_action_encoder(dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> Callable[[Any], bytes]:
    ndarray = np.ndarray

    def encode(action: Any) -> bytes:
        if type(action) is ndarray and action.dtype is dtype and action.shape == shape:
            return action.tobytes()
        return _as_array(action, dtype, shape, name).tobytes()

    return encode


def _discrete_action_encoder(schema: Schema, name: str) -> Callable[[Any], bytes]:
    pack = INT64.pack

    def encode(action: Any) -> bytes:
        if type(action) is int and -(2**63) <= action < 2**63:
            return pack(action)
        return pack(_as_integer(action, schema, name))

    return encode


def _as_array(action: Any, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    try:
        array = np.asarray(action)
    except ValueError as error:
        raise InvalidAction(f"{name} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InvalidAction(f"{name} must be numbers of shape {shape}, got {_describe(action)}")
    if array.shape != shape:
        raise InvalidAction(f"{name} must have shape {shape}, got shape {array.shape}")
    if dtype.kind == "i" and array.dtype.kind in "uf" and not _fits_int64(array):
        raise InvalidAction(f"{name} must be whole numbers that fit 64 bits, got {_describe(action)}")
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def _fits_int64(array: NDArray[Any]) -> bool:
    return bool(np.array_equal(array, np.rint(array)) and (np.abs(array.astype(np.float64)) < 2.0**63).all())


def _as_integer(action: Any, schema: Schema, name: str) -> int:
    array = np.asarray(action)
    if array.size != 1 or array.dtype.kind not in "biu":
        first = int(schema["start"])
        raise InvalidAction(
            f"{name} must be one integer from {first} to {first + int(schema['n']) - 1}, got {_describe(action)}"
        )
    return min(int(array.item()), 2**63 - 1)


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
