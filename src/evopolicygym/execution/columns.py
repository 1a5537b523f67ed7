"""Columns of a recorded episode: arrays with one row per step that grow on disk, and the archive made of them.

All columns share one file. Rows are collected in blocks and written block by block, so that memory does not grow with
the length of an episode and the number of open files not with the number of columns."""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.sandbox.policy.codec import ARRAYS, Schema

BLOCK_BYTES: Final = 1 << 20
BLOCK_ROWS: Final = 64
LONGEST_NAME: Final = 100
LENGTH: Final = struct.Struct("<I")

KeyPath = tuple[Any, ...]  # keys and indices that lead from a whole observation or action to a part of it


class Column:
    """One growing array of numbers. ``first`` is the row of its first value; rows before it are missing (nan)."""

    def __init__(self, name: str, dtype: Any, shape: tuple[int, ...], rows: int, first: int = 0) -> None:
        self.name, self.dtype, self.shape, self._first = name, np.dtype(dtype), shape, first
        self.block: NDArray[Any] = np.zeros((rows, *shape), self.dtype)
        self._extents: list[tuple[int, int]] = []
        self._count = first

    @property
    def row_bytes(self) -> int:
        return int(self.dtype.itemsize * math.prod(self.shape))

    def fits(self, value: Any) -> bool:
        return bool(np.shape(value) == self.shape)

    def put(self, row: int, value: Any) -> None:
        self.block[row] = value

    def flush(self, spool: IO[bytes], rows: int) -> None:
        """Write the first rows of the block."""
        if rows:
            self._extents.append((spool.tell(), spool.write(np.ascontiguousarray(self.block[:rows]).data)))
            self._count += rows

    def move_into(self, archive: zipfile.ZipFile, spool: IO[bytes]) -> None:
        with archive.open(f"{self.name}.npy", "w", force_zip64=True) as member:
            _write_header(member, self.dtype, (self._count, *self.shape))
            for start in range(0, self._first, BLOCK_ROWS):
                rows = min(BLOCK_ROWS, self._first - start)
                member.write(np.full((rows, *self.shape), np.nan, self.dtype).tobytes())
            for data in _read(spool, self._extents):
                member.write(data)


class TextColumn:
    """A growing array of texts. Its width is known only at the end: that of the longest text."""

    row_bytes = LENGTH.size

    def __init__(self, name: str, rows: int) -> None:
        self.name, self.block = name, [""] * rows
        self._extents: list[tuple[int, int]] = []
        self._count, self._width = 0, 1

    def fits(self, value: Any) -> bool:
        return isinstance(value, str)

    def put(self, row: int, value: Any) -> None:
        self.block[row] = str(value)
        self._width = max(self._width, len(self.block[row]))

    def flush(self, spool: IO[bytes], rows: int) -> None:
        texts = [text.encode(errors="replace") for text in self.block[:rows]]
        if texts:
            data = b"".join(LENGTH.pack(len(text)) + text for text in texts)
            self._extents.append((spool.tell(), spool.write(data)))
            self._count += rows

    def move_into(self, archive: zipfile.ZipFile, spool: IO[bytes]) -> None:
        dtype = np.dtype(f"<U{self._width}")
        with archive.open(f"{self.name}.npy", "w", force_zip64=True) as member:
            _write_header(member, dtype, (self._count,))
            for data in _read(spool, self._extents):
                member.write(np.array(list(_texts(data)), dtype).tobytes())


AnyColumn = Column | TextColumn


class SpaceColumns:
    """The columns of all observations, or of all actions: one for each part of the space that is no Dict or Tuple."""

    def __init__(self, schema: Schema, names: Mapping[KeyPath, str], rows: int) -> None:
        self.schema = schema
        self.columns: dict[KeyPath, AnyColumn] = {
            path: _column(names[path], leaf, rows) for path, leaf in leaves(schema)
        }

    def fits(self, value: Any) -> bool:
        """Return whether a value has the form of the space, as far as columns need it."""
        try:
            return all(column.fits(_part(value, path)) for path, column in self.columns.items())
        except (KeyError, IndexError, TypeError, ValueError):
            return False

    def put(self, row: int, value: Any) -> None:
        for path, column in self.columns.items():
            column.put(row, _part(value, path))


def row_bytes(schema: Schema) -> int:
    """Return the bytes of one row of all columns of a space."""
    return sum(_column("", leaf, 0).row_bytes for _, leaf in leaves(schema))


def rows_per_block(bytes_of_row: int) -> int:
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, bytes_of_row)))


def leaves(schema: Schema, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Schema]]:
    """Yield the parts of a space that hold values, with the keys that lead to them."""
    if (spaces := schema.get("spaces")) is None:
        yield path, schema
        return
    for key, child in spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces):
        yield from leaves(child, (*path, key))


def column_names(prefix: str, schema: Schema) -> dict[KeyPath, str]:
    """Name the parts of a space by the keys that lead to them. Names are unique and safe as file names."""
    names: dict[KeyPath, str] = {}
    for path, _ in leaves(schema):
        names[path] = unique("_".join((prefix, *map(str, path))), names.values())
    return names


def unique(name: str, taken: Iterable[str]) -> str:
    clean = re.sub(r"[^\w-]", "_", name)[:LONGEST_NAME]
    used = set(taken)
    return clean if clean not in used else next(f"{clean}_{n}" for n in count(2) if f"{clean}_{n}" not in used)


def pack(file: IO[bytes], columns: Iterable[AnyColumn], flags: Mapping[str, bool], spool: IO[bytes]) -> None:
    """Write the archive: the columns, and single truth values beside them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for column in columns:
            column.move_into(archive, spool)
        for name, flag in flags.items():
            with archive.open(f"{name}.npy", "w") as member:
                _write_header(member, np.dtype(bool), ())
                member.write(np.array(flag).tobytes())


def _column(name: str, leaf: Schema, rows: int) -> AnyColumn:
    if leaf["type"] in ARRAYS:
        return Column(name, leaf["dtype"], tuple(leaf["shape"]), rows)
    return TextColumn(name, rows) if leaf["type"] == "Text" else Column(name, np.int64, (), rows)


def _part(value: Any, path: KeyPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _read(spool: IO[bytes], extents: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for offset, size in extents:
        spool.seek(offset)
        yield spool.read(size)


def _texts(data: bytes) -> Iterator[str]:
    offset = 0
    while offset < len(data):
        start = offset + LENGTH.size
        offset = start + LENGTH.unpack_from(data, offset)[0]
        yield data[start:offset].decode()


def _write_header(member: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": shape})
