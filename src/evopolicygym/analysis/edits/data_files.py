"""Values and structure of data files beside a policy: tables, settings, arrays. Files are read, never unpickled.

Standard library only: this runs in the limited child process.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from evopolicygym.analysis.edits.canonical import CanonicalForm

MAX_PARSED_BYTES: Final = 8 << 20
MAX_ARRAYS: Final = 1000
MAX_HEADER: Final = 1 << 16
NUMBER: Final = re.compile(r"(?<![\w.])[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
TEXT_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".dat")
NUMERIC: Final = frozenset("fiuc")


@dataclass(frozen=True)
class DataFile:
    """Hashes of a file's values, and of its structure: what is left without its numbers."""

    values: str
    structure: str


def is_read(path: str, form: CanonicalForm) -> bool:
    """Return whether a program may read a file: a string holds its name, or ends like it, or folders are listed."""
    name = PurePosixPath(path)
    if form.lists_folders:
        return True
    return any(name.stem in text or (name.suffix and text.endswith(name.suffix)) for text in form.texts)


def describe_file(path: str, data: bytes) -> DataFile:
    """Return the values and the structure of a file; of a file that cannot be read, its bytes are both."""
    try:
        values, structure = _parts(PurePosixPath(path).suffix.lower(), data)
    except Exception:  # parsers and decompressors of hostile files raise nearly anything
        values = structure = hashlib.sha256(data).hexdigest()
    return DataFile(
        *(hashlib.sha256(f"{path}\n{part}".encode(errors="replace")).hexdigest() for part in (values, structure))
    )


def _parts(suffix: str, data: bytes) -> tuple[str, str]:
    if suffix == ".npz":
        return _archive(data)
    if suffix == ".npy":
        return hashlib.sha256(data).hexdigest(), _array(data[:MAX_HEADER])
    if len(data) > MAX_PARSED_BYTES:
        raise ValueError("too large to be parsed")
    if suffix == ".json":
        value = json.loads(data)
        return json.dumps(value, sort_keys=True), json.dumps(_skeleton(value), sort_keys=True)
    if suffix in TEXT_SUFFIXES:
        lines = [" ".join(line.split()) for line in data.decode().splitlines()]
        text = "\n".join(line for line in lines if line)
        return text, NUMBER.sub("#", text)
    raise ValueError("no known format")


def _skeleton(value: Any) -> Any:
    """Return a value of JSON with every number and flag replaced."""
    if isinstance(value, dict):
        return {key: _skeleton(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_skeleton(inner) for inner in value]
    return "#" if isinstance(value, (bool, int, float)) else value


def _archive(data: bytes) -> tuple[str, str]:
    """Return the checksums and the shapes of the arrays in an archive; nothing is decompressed but their headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
        if len(entries) > MAX_ARRAYS:
            raise ValueError("too many arrays")
        values = [f"{entry.filename} {entry.file_size} {entry.CRC}" for entry in entries]
        shapes = [f"{entry.filename} {_array(_start(archive, entry))}" for entry in entries]
    return "\n".join(values), "\n".join(shapes)


def _start(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        return file.read(MAX_HEADER)


def _array(data: bytes) -> str:
    """Return the kind of numbers and the shape that the header of an array states."""
    if not data.startswith(b"\x93NUMPY"):
        raise ValueError("no array")
    wide = data[6] > 1
    (length,) = struct.unpack("<I" if wide else "<H", data[8 : 12 if wide else 10])
    start = 12 if wide else 10
    header = ast.literal_eval(data[start : start + min(length, MAX_HEADER)].decode("latin-1").strip())
    kind = str(header["descr"])[1:2]
    if kind not in NUMERIC:
        raise ValueError("no numbers")
    return f"{kind} {header['shape']}"


def joined(files: Iterable[str]) -> str:
    return "\n".join(sorted(files))
