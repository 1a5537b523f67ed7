"""Recording an episode while it runs. Everything streams to disk: memory does not grow with an episode's length.

``episode.npz`` holds every array, exactly: ``obs`` (one row more than steps: the last is the final observation),
``action``, ``reward``, the numbers of the environment's ``info``, and ``terminated`` and ``truncated``. Parts of Dict
and Tuple spaces have columns of their own, such as ``obs_image``.

``trajectory.jsonl`` is for reading: one line per step, and a last line with the final observation. Floats have the
digits of a float32. Large arrays stand in the line as ``{"npz": NAME, "row": T}``: row T of array NAME of episode.npz.
Numbers that JSON does not have are written as text ("nan", "inf", "-inf"), which ``float`` reads back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.columns import (
    AnyColumn,
    Column,
    KeyPath,
    SpaceColumns,
    TextColumn,
    column_names,
    leaves,
    pack,
    row_bytes,
    rows_per_block,
    unique,
)
from evopolicygym.execution.records import Recording
from evopolicygym.execution.step_info import InfoFilter
from evopolicygym.files import link_unnamed, open_unnamed
from evopolicygym.sandbox.policy.codec import ARRAYS, Schema
from evopolicygym.tasks.spaces import json_safe

INLINE_NUMBERS: Final = 100  # arrays with more numbers than this are not written as text
ARRAYS_FILE: Final = "episode.npz"
TEXT_FILE: Final = "trajectory.jsonl"
DIGITS: Final = (6, 7, 8, 9)  # nine always suffice for a float32
LARGEST_EXPONENT: Final = 22  # up to here powers of ten are exact floats, so one division rounds correctly
POWERS: Final = 10.0 ** np.arange(LARGEST_EXPONENT + 1)


class Recorder(Protocol):
    """Gets every step, then the last observation. ``left_out`` describes what it did not record."""

    @property
    def left_out(self) -> tuple[str, ...]: ...

    def step(
        self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any
    ) -> None: ...

    def last(self, t: int, obs: Any) -> None: ...


class Recorders:
    """The recorders that a Recording asks for, opened and closed together. ``seed`` is that of the case; None leaves
    out the environment's ``info``."""

    def __init__(
        self, recording: Recording, env: Any, obs_space: Schema, action_space: Schema, seed: int | None = None
    ) -> None:
        self._recording, self._env, self._spaces, self._seed = recording, env, (obs_space, action_space), seed
        self._open: list[Recorder] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with _errors_as_faults():
            from evopolicygym.execution.video import VideoRecorder

        folder, max_bytes = Path(self._recording.folder), self._recording.max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        if self._recording.trajectory:
            trajectory = TrajectoryRecorder(folder, *self._spaces, max_bytes, self._seed)
            self._open.append(self._stack.enter_context(trajectory))
        if self._recording.video:
            self._open.append(self._stack.enter_context(VideoRecorder(folder / "video.mp4", self._env, max_bytes)))
        return self

    def __exit__(self, *exception: object) -> None:
        with _errors_as_faults():
            self._stack.close()

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(what for recorder in self._open for what in recorder.left_out)

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        with _errors_as_faults():
            for recorder in self._open:
                recorder.step(t, obs, action, reward, terminated, truncated, info)

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
    """Writes both files. Steps are collected in blocks, and each block is written as text and as rows at once."""

    def __init__(self, folder: Path, obs_space: Schema, action_space: Schema, max_bytes: int, seed: int | None) -> None:
        self._folder, self._room = folder, max_bytes
        self.left_out: tuple[str, ...] = ()
        self._files = ExitStack()
        self._lines, self._spool = (self._files.enter_context(open_unnamed(folder)) for _ in range(2))
        self._row_bytes = row_bytes(obs_space) + row_bytes(action_space) + np.dtype(np.float64).itemsize
        self._block_rows = rows_per_block(self._row_bytes)
        self._obs = SpaceColumns(obs_space, column_names("obs", obs_space), self._block_rows)
        self._action = SpaceColumns(action_space, column_names("action", action_space), self._block_rows)
        self._reward = Column("reward", np.float64, (), self._block_rows)
        self._info: dict[str, Column] = {}
        self._info_filter = None if seed is None else InfoFilter(seed)
        self._large = {path for path, _ in _large(obs_space)}
        self._flags = {"terminated": False, "truncated": False}
        self._block_start = self._steps = self._observations = 0  # the block begins at step ``_block_start``
        self._extra: dict[int, dict[str, Any]] = {}  # of lines of the block, by row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Link the files into place, the text last: when it exists, the arrays that it names exist as well."""
        with self._files:
            self._flush()
            archive = self._files.enter_context(open_unnamed(self._folder))
            pack(archive, self._columns(), self._flags, self._spool)
            link_unnamed(archive, self._folder / ARRAYS_FILE)
            link_unnamed(self._lines, self._folder / TEXT_FILE)

    def step(self, t: int, obs: Any, action: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        if not self._has_room(t):
            return
        row = self._steps
        self._obs.put(row, obs)
        self._action.put(row, action)
        self._reward.put(row, reward)
        numbers = self._info_filter.numbers(info) if self._info_filter else {}
        self._put_info(row, numbers)
        if terminated or truncated:
            self._flags = {"terminated": terminated, "truncated": truncated}
            self._extra[row] = dict(self._flags)
        if numbers and (t == 0 or row in self._extra):
            self._extra[row] = self._extra.get(row, {}) | {"info": {name: _plain(n) for name, n in numbers.items()}}
        self._steps = self._observations = row + 1
        self._room -= self._row_bytes
        if self._steps == self._block_rows:
            self._flush()

    def last(self, t: int, obs: Any) -> None:
        if not self._has_room(t):
            return
        if not self._obs.fits(obs):  # no policy has seen it, so nothing has checked it yet
            self.left_out = (*self.left_out, "the final observation: it does not fit the observation space")
            return
        self._obs.put(self._observations, obs)
        self._observations += 1

    def _has_room(self, t: int) -> bool:
        if self._room <= 0 and not self.left_out:
            self.left_out = (f"the trajectory ends before step {t}: it has reached its size limit",)
        return self._room > 0

    def _put_info(self, row: int, numbers: Mapping[str, Any]) -> None:
        """Add the numbers of one step. Keys may differ between steps: a missing one is nan, a new one a new column."""
        for name, value in numbers.items():
            if name not in self._info:
                taken = [column.name for column in self._columns()]
                column = Column(unique(f"info_{name}", taken), np.float64, np.shape(value), self._block_rows,
                                self._block_start)  # fmt: skip
                column.block.fill(np.nan)
                self._info[name] = column
            if self._info[name].fits(value):
                self._info[name].put(row, value)

    def _columns(self) -> Iterator[AnyColumn]:
        yield from self._obs.columns.values()
        yield from self._action.columns.values()
        yield self._reward
        yield from self._info.values()

    def _flush(self) -> None:
        """Write the collected steps, and the final observation if there is one."""
        obs = _rows(self._obs, self._observations, self._large, self._block_start)
        action, reward = _rows(self._action, self._steps), shortest(self._reward.block[: self._steps])
        for row in range(self._observations):
            line = {"t": self._block_start + row, "obs": obs[row]}
            if row < self._steps:
                line |= {"action": action[row], "reward": reward[row], **self._extra.get(row, {})}
            self._room -= self._lines.write(_json(line).encode() + b"\n")
        for column in self._obs.columns.values():
            column.flush(self._spool, self._observations)
        for column in (*self._action.columns.values(), self._reward, *self._info.values()):
            column.flush(self._spool, self._steps)
        for column in self._info.values():
            column.block.fill(np.nan)
        self._block_start += self._steps
        self._steps = self._observations = 0
        self._extra = {}


def large_arrays(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the arrays of an observation that are too large for text, with their names in the archive."""
    names = column_names("obs", schema)
    for path, leaf in _large(schema):
        yield names[path], leaf


def _large(schema: Schema) -> Iterator[tuple[KeyPath, Schema]]:
    for path, leaf in leaves(schema):
        if leaf["type"] in ARRAYS and math.prod(leaf["shape"]) > INLINE_NUMBERS:
            yield path, leaf


def _rows(space: SpaceColumns, rows: int, large: Iterable[KeyPath] = (), first: int = 0) -> list[Any]:
    """Return observations or actions of a block as JSON shows them."""

    def values(schema: Schema, path: KeyPath) -> list[Any]:
        spaces = schema.get("spaces")
        if spaces is None:
            column = space.columns[path]
            if path in large:
                return [{"npz": column.name, "row": first + row} for row in range(rows)]
            return _texts(column, rows)
        if isinstance(spaces, Mapping):
            parts = [values(child, (*path, key)) for key, child in spaces.items()]
            return [dict(zip(spaces, part, strict=True)) for part in _by_row(parts, rows)]
        parts = [values(child, (*path, index)) for index, child in enumerate(spaces)]
        return [list(part) for part in _by_row(parts, rows)]

    return values(space.schema, ())


def _by_row(parts: list[list[Any]], rows: int) -> Iterator[tuple[Any, ...]]:
    return (tuple(part[row] for part in parts) for row in range(rows))


def _texts(column: AnyColumn, rows: int) -> list[Any]:
    if isinstance(column, TextColumn):
        return column.block[:rows]
    block = column.block[:rows]
    as_lists: list[Any] = shortest(block) if block.dtype.kind == "f" else block.tolist()
    return as_lists


def _json(line: dict[str, Any]) -> str:
    try:
        return json.dumps(line, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a number that JSON does not have: rare, so not searched for in every line
        return json.dumps(json_safe(line), separators=(",", ":"), allow_nan=False)


def _plain(numbers: Any) -> Any:
    """Return the numbers of one entry of ``info`` as JSON shows them."""
    return shortest(np.asarray([numbers], np.float64))[0]


def shortest(values: NDArray[Any]) -> list[Any]:
    """Return floats as nested lists whose ``repr`` is short.

    Each number reads back to the float32 nearest to the given one; what float32 cannot hold stays as it is. All numbers
    of many steps are converted at once: one by one, the conversion would take as long as the steps themselves."""
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        exact = single.astype(np.float64)
        short = exact.copy()
        exponent = np.floor(np.log10(np.abs(exact)))
        is_open = np.isfinite(exact) & (exact != 0.0)
        for digits in DIGITS:
            scale = digits - 1 - np.where(is_open, exponent, 0.0)
            power = POWERS[np.minimum(np.abs(scale), LARGEST_EXPONENT).astype(np.int64)]
            rounded = np.where(scale >= 0, np.rint(exact * power) / power, np.rint(exact / power) * power)
            fits = is_open & (np.abs(scale) <= LARGEST_EXPONENT) & (rounded.astype(np.float32) == single)
            short[fits] = rounded[fits]
            is_open &= ~fits
    too_large = np.isinf(single) & np.isfinite(values)
    short[too_large] = values[too_large]
    for index in np.argwhere(is_open):  # exponents beyond those of POWERS: rare
        short[tuple(index)] = float(str(single[tuple(index)]))
    as_lists: list[Any] = short.tolist()
    return as_lists
