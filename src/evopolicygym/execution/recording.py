"""Recording an episode while it runs. Everything streams to disk: memory does not grow with an episode's length.

``trajectory.jsonl`` has one line per step, and a last line with the final observation. Large arrays go to
``observations.npz`` and stand in the line as ``{"npz": NAME, "row": T}``: row T of array NAME. Numbers that JSON does
not have are written as text ("nan", "inf", "-inf"), which ``float`` reads back.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final, Protocol, Self

import numpy as np

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.records import Recording
from evopolicygym.files import link_unnamed, open_unnamed
from evopolicygym.sandbox.policy.codec import ARRAYS, Schema
from evopolicygym.tasks.spaces import json_safe

INLINE_NUMBERS: Final = 100  # arrays with more numbers than this are not written as text
LONGEST_NAME: Final = 100

KeyPath = tuple[str, ...]  # keys and indices that lead from the whole observation to a part of it


class Recorder(Protocol):
    """Gets every step, then the last observation. ``left_out`` describes what it did not record."""

    @property
    def left_out(self) -> tuple[str, ...]: ...

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None: ...

    def last(self, t: int, obs: Any) -> None: ...


class Recorders:
    """The recorders that a Recording asks for, opened and closed together."""

    def __init__(self, recording: Recording, env: Any, obs_space: Schema) -> None:
        self._recording, self._env, self._obs_space = recording, env, obs_space
        self._open: list[Recorder] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with _errors_as_faults():
            from evopolicygym.execution.video import VideoRecorder

        folder, max_bytes = Path(self._recording.folder), self._recording.max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        if self._recording.trajectory:
            self._open.append(self._stack.enter_context(TrajectoryRecorder(folder, self._obs_space, max_bytes)))
        if self._recording.video:
            self._open.append(self._stack.enter_context(VideoRecorder(folder / "video.mp4", self._env, max_bytes)))
        return self

    def __exit__(self, *exception: object) -> None:
        with _errors_as_faults():
            self._stack.close()

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(what for recorder in self._open for what in recorder.left_out)

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool) -> None:
        with _errors_as_faults():
            for recorder in self._open:
                recorder.step(t, obs, action, reward, terminated, truncated)

    def last(self, t: int, obs: Any) -> None:
        with _errors_as_faults():
            for recorder in self._open:
                recorder.last(t, obs)


@contextmanager
def _errors_as_faults() -> Iterator[None]:
    """Raise errors as Faults: a full disk or a failing renderer is not the policy's fault."""
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        text = f"the episode cannot be recorded: {type(error).__name__}: {error}"
        raise Fault(text, is_permanent(error)) from error


class TrajectoryRecorder:
    """Writes the trajectory. Arrays pass through a raw file, because their number of rows is known only at the end."""

    def __init__(self, folder: Path, obs_space: Schema, max_bytes: int) -> None:
        self._folder, self._room = folder, max_bytes
        self.left_out: tuple[str, ...] = ()
        self._files = ExitStack()
        self._lines = self._files.enter_context(open_unnamed(folder))
        self._large = {
            path: _Rows(name, schema, self._files.enter_context(open_unnamed(folder)))
            for path, (name, schema) in _named_large_arrays(obs_space).items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Link the files into place, the lines last: when they exist, the arrays that they name exist as well."""
        with self._files:
            if self._large:
                archive = self._files.enter_context(open_unnamed(self._folder))
                _pack(archive, list(self._large.values()))
                link_unnamed(archive, self._folder / "observations.npz")
            link_unnamed(self._lines, self._folder / "trajectory.jsonl")

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
            self.left_out = (f"the trajectory ends before step {t}: it has reached its size limit",)
        return self._room > 0

    def _write(self, line: dict[str, Any]) -> None:
        self._room -= self._lines.write(_json(line).encode() + b"\n")

    def _observation(self, value: Any, t: int, path: KeyPath = ()) -> Any:
        if path in self._large:
            self._room -= self._large[path].append(value)
            return {"npz": self._large[path].name, "row": t}
        if isinstance(value, Mapping):
            return {key: self._observation(child, t, (*path, str(key))) for key, child in value.items()}
        if isinstance(value, list | tuple):
            return [self._observation(child, t, (*path, str(index))) for index, child in enumerate(value)]
        return _plain(value)


class _Rows:
    """One growing array on disk."""

    def __init__(self, name: str, schema: Schema, file: IO[bytes]) -> None:
        self.name, self._dtype, self._shape = name, np.dtype(schema["dtype"]), tuple(schema["shape"])
        self._file, self._count = file, 0

    def append(self, value: Any) -> int:
        """Append a row; returns the number of bytes written."""
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
    """Yield the arrays of an observation that are too large for text, with their names in the archive."""
    yield from _named_large_arrays(schema).values()


def _named_large_arrays(schema: Schema) -> dict[KeyPath, tuple[str, Schema]]:
    """Name large arrays by the keys that lead to them. Names are unique and safe as file names."""
    named: dict[KeyPath, tuple[str, Schema]] = {}
    taken: set[str] = set()
    for path, large in _large(schema):
        clean = re.sub(r"[^\w-]", "_", "_".join(path))[:LONGEST_NAME] or "observation"
        name = clean if clean not in taken else next(f"{clean}_{n}" for n in count(2) if f"{clean}_{n}" not in taken)
        taken.add(name)
        named[path] = name, large
    return named


def _large(schema: Schema, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Schema]]:
    if schema["type"] in ARRAYS:
        if math.prod(schema["shape"]) > INLINE_NUMBERS:
            yield path, schema
    elif spaces := schema.get("spaces"):
        for key, child in spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces):
            yield from _large(child, (*path, str(key)))


def _pack(file: IO[bytes], arrays: list[_Rows]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for rows in arrays:
            rows.move_into(archive)


def _json(line: dict[str, Any]) -> str:
    try:
        return json.dumps(line, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a number that JSON does not have: rare, so not searched for in every line
        return json.dumps(json_safe(line), separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert to numbers, strings and lists of them, exactly: ``repr`` of a float reads back to the same bits."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, list | tuple) else value
