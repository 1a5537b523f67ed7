"""trajectory.jsonl: one line per step, and a last line with the final observation. Large arrays go to observations.npz.

A large array stands in the line as ``{"npz": NAME, "row": T}``: row T of array NAME in observations.npz.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np

from evopolicygym.rollout.unnamed import give_name, unnamed
from evopolicygym.sandbox.codec import ARRAYS, Schema

INLINE_NUMBERS: Final = 100  # arrays with more numbers than this are not written as text


class Trajectory:
    """Streams; the arrays pass through a raw file because their number of rows is known only at the end."""

    def __init__(self, folder: Path, obs_space: Schema, max_bytes: int) -> None:
        self._folder, self._room = folder, max_bytes
        self.left_out: tuple[str, ...] = ()
        self._files = ExitStack()
        self._lines = self._files.enter_context(unnamed(folder))
        self._large = {
            name: _Rows(name, schema, self._files.enter_context(unnamed(folder)))
            for name, schema in large_arrays(obs_space)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """The lines last: where they are, the arrays that they name are, too."""
        with self._files:
            if self._large:
                archive = self._files.enter_context(unnamed(self._folder))
                _pack(archive, list(self._large.values()))
                give_name(archive, self._folder / "observations.npz")
            give_name(self._lines, self._folder / "trajectory.jsonl")

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None:
        if not self._has_room(t):
            return
        self._write(
            {
                "t": t,
                "obs": self._observation(obs, t),
                "action": _plain(action),
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
            }
        )

    def last(self, t: int, obs: Any) -> None:
        if self._has_room(t):
            self._write({"t": t, "obs": self._observation(obs, t)})

    def _has_room(self, t: int) -> bool:
        if self._room <= 0 and not self.left_out:
            self.left_out = (f"the trajectory ends before step {t}: it is as large as it may become",)
        return self._room > 0

    def _write(self, line: dict[str, Any]) -> None:
        self._room -= self._lines.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _observation(self, obs: Any, t: int) -> Any:
        if isinstance(obs, Mapping):
            return {key: self._entry(key, value, t) for key, value in obs.items()}
        return self._entry("observation", obs, t)

    def _entry(self, name: str, value: Any, t: int) -> Any:
        if name not in self._large:
            return _plain(value)
        self._room -= self._large[name].append(value)
        return {"npz": name, "row": t}


class _Rows:
    """One growing array, on disk."""

    def __init__(self, name: str, schema: Schema, file: IO[bytes]) -> None:
        self.name, self._dtype, self._shape = name, np.dtype(schema["dtype"]), tuple(schema["shape"])
        self._file, self._count = file, 0

    def append(self, value: Any) -> int:
        """Returns the bytes written."""
        self._count += 1
        return self._file.write(np.ascontiguousarray(value, self._dtype).data)

    def move_into(self, archive: zipfile.ZipFile) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._count, *self._shape),
        }
        self._file.seek(0)
        with archive.open(f"{self.name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            shutil.copyfileobj(self._file, member, 1 << 20)


def large_arrays(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Arrays of an observation that are too large for text, by name."""
    named = schema["spaces"].items() if schema["type"] == "Dict" else [("observation", schema)]
    for name, child in named:
        if child["type"] in ARRAYS and math.prod(child["shape"]) > INLINE_NUMBERS:
            yield name, child


def _pack(file: IO[bytes], arrays: list[_Rows]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for rows in arrays:
            rows.move_into(archive)


def _plain(value: Any) -> Any:
    """Numbers, strings and lists of them, exactly: ``repr`` of a float reads back to the same bits."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, list | tuple) else value
