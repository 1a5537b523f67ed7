"""The worst episode at a glance: a sheet of its observations, as a picture or, for grids of codes, as text.

It shows what the policy saw and nothing else, so it is the same at every text level and behind every disguise."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evopolicygym.execution.columns import column_names, leaves
from evopolicygym.execution.recording import ARRAYS_FILE
from evopolicygym.sandbox.policy.codec import Schema

PICTURE: Final = "worst.png"
GRID_TEXT: Final = "worst.txt"
SHEETS: Final = (PICTURE, GRID_TEXT)
FRAMES: Final = 20
GRID_FRAMES: Final = 12
COLUMNS: Final = 5
SMALLEST_PICTURE: Final = 24  # pixels of the shorter side; smaller arrays are grids
SMALLEST_GRID, LARGEST_GRID = 3, 32
SIDE: Final = (96, 192)  # smaller frames are enlarged, larger ones thinned out
CHANNELS: Final = (1, 3)
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
EMPTY: Final = "."


def write_sheet(obs_space: Schema, episode: Path, folder: Path) -> dict[str, Any]:
    """Write the sheet of a recorded episode into ``folder``. Returns its file and the steps that it shows; nothing if
    observations are neither pictures nor grids, or the episode was not recorded."""
    column = _find(obs_space)
    if column is None or not (episode / ARRAYS_FILE).exists():
        return {}
    name, is_picture = column
    try:
        with np.load(episode / ARRAYS_FILE, allow_pickle=False) as arrays:
            observations, actions = arrays[name], arrays.get("action")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return {}
    steps = _steps(len(observations), FRAMES if is_picture else GRID_FRAMES)
    if not steps:
        return {}
    if is_picture:
        (folder / PICTURE).write_bytes(png(_sheet([_frame(observations[step]) for step in steps])))
        return {"file": PICTURE, "steps": steps}
    text = "\n".join(_grid(observations[step], step, actions) for step in steps)
    (folder / GRID_TEXT).write_text(text, "utf-8")
    return {"file": GRID_TEXT, "steps": steps}


def sheet_file(obs_space: Schema) -> str | None:
    """Return the name of the file that shows observations of a space; None if they cannot be drawn."""
    column = _find(obs_space)
    return None if column is None else PICTURE if column[1] else GRID_TEXT


def _find(obs_space: Schema) -> tuple[str, bool] | None:
    """Return the name of the first picture or grid of an observation, and whether it is a picture."""
    names = column_names("obs", obs_space)
    for path, leaf in leaves(obs_space):
        shape = leaf.get("shape", ())
        if leaf["type"] != "Box" or np.dtype(leaf["dtype"]).kind not in "iu" or len(shape) not in (2, 3):
            continue
        if len(shape) == 3 and shape[2] not in CHANNELS:
            continue
        sides = shape[:2]
        if leaf["dtype"] == "uint8" and min(sides) >= SMALLEST_PICTURE:
            return names[path], True
        if min(sides) >= SMALLEST_GRID and max(sides) <= LARGEST_GRID:
            return names[path], False
    return None


def _steps(count: int, most: int) -> list[int]:
    """Return evenly spaced steps with the first and the last one."""
    return sorted({int(step) for step in np.linspace(0, count - 1, min(count, most))}) if count else []


def _frame(observation: NDArray[Any]) -> NDArray[np.uint8]:
    picture = observation if observation.ndim == 3 else observation[:, :, None]
    picture = np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture
    side = max(picture.shape[:2])
    if side > SIDE[1]:
        picture = picture[:: -(-side // SIDE[1]), :: -(-side // SIDE[1])]
    elif side < SIDE[0]:
        times = SIDE[0] // side
        picture = picture.repeat(times, axis=0).repeat(times, axis=1)
    return np.ascontiguousarray(picture, np.uint8)


def _sheet(frames: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Put frames side by side, in the order of reading, with a line of white between them."""
    height, width = frames[0].shape[:2]
    rows = -(-len(frames) // COLUMNS)
    columns = min(COLUMNS, len(frames))
    sheet = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, 3), 255, np.uint8)
    for number, frame in enumerate(frames):
        top, left = number // COLUMNS * (height + 1), number % COLUMNS * (width + 1)
        sheet[top : top + height, left : left + width] = frame
    return sheet


def png(picture: NDArray[np.uint8]) -> bytes:
    """Return an RGB picture as a PNG file."""
    height, width = picture.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, width * 3)], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _grid(observation: NDArray[Any], step: int, actions: NDArray[Any] | None) -> str:
    """Return one cell per entry: a digit for each channel, dots for zeros. Lines are the first index."""
    action = f", action {actions[step].tolist()}" if actions is not None and step < len(actions) else ""
    cells = observation if observation.ndim == 3 else observation[:, :, None]
    return f"step {step}{action}\n" + "\n".join(" ".join(_cell(cell) for cell in row) for row in cells) + "\n"


def _cell(channels: NDArray[Any]) -> str:
    if not channels.any():
        return EMPTY * len(channels)
    return "".join(DIGITS[code] if 0 <= code < len(DIGITS) else "+" for code in channels.tolist())
