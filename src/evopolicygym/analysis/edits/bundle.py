"""The bundle: policy.py and the local files that it reaches by import. Found by reading, never by running."""

from __future__ import annotations

import ast
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.imports import Imports, Module, imports_of
from evopolicygym.files import is_folder, open_folder, read_file

POLICY: Final = "policy.py"
MAX_SOURCE_BYTES: Final = 2 << 20
MAX_FILE_BYTES: Final = 64 << 20
ERROR_CHARS: Final = 300


@dataclass(frozen=True)
class SourceFile:
    """One file. ``tree`` is None when it does not parse, and ``error`` says why: then its bytes are all there is."""

    path: str
    digest: str
    lines: int
    tree: ast.Module | None
    error: str | None


@dataclass(frozen=True)
class Bundle:
    """Files in the order of their paths; ``unresolved`` imports as ``file:line: function``."""

    files: tuple[SourceFile, ...]
    unresolved: tuple[str, ...]

    @property
    def hash(self) -> str:
        return hash_files({file.path: file.digest for file in self.files})


def hash_files(digests: dict[str, str]) -> str:
    """Of paths and contents."""
    return hashlib.sha256(
        "\n".join(f"{digest} {path}" for path, digest in sorted(digests.items())).encode()
    ).hexdigest()


def read_bundle(folder: Path) -> Bundle:
    """Empty when there is no policy.py."""
    files: dict[str, SourceFile] = {}
    unresolved: list[str] = []
    waiting = [POLICY] if _is_file(folder, POLICY) else []
    while waiting:
        path = waiting.pop()
        if path not in files:
            files[path] = read_source(folder, path)
            found = _imports(files[path])
            unresolved += [f"{path}:{text}" for text in found.unresolved]
            waiting += [local for module in found.modules for local in locate(folder, module)]
    return Bundle(tuple(files[path] for path in sorted(files)), tuple(sorted(unresolved)))


def read_source(folder: Path, path: str) -> SourceFile:
    """A file too large to parse is known by its bytes, and its lines are not counted."""
    data = read_file(folder, path, MAX_FILE_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > MAX_SOURCE_BYTES:
        return SourceFile(path, digest, 0, None, f"{path}: larger than {MAX_SOURCE_BYTES >> 20} MiB, not parsed")
    lines = len(source_lines(data))
    try:
        return SourceFile(path, digest, lines, ast.parse(data), None)
    except Exception as error:  # whatever a parser says of an agent's bytes is a fact about them
        return SourceFile(path, digest, lines, None, _plain(f"{path}: {type(error).__name__}: {error}"))


def source_lines(data: bytes) -> list[bytes]:
    """Lines that are not blank, without what trails."""
    return [line for raw in data.split(b"\n") if (line := raw.rstrip())]


def locate(folder: Path, module: Module) -> list[str]:
    """Files that importing ``module`` runs, those of its parents included, chosen as Python chooses."""
    found: list[str] = []
    if any(
        not part or "/" in part for part in module
    ):  # a literal may hold anything; it must not lead out of the folder
        return found
    for length in range(1, len(module) + 1):
        path = "/".join(module[:length])
        if _is_file(folder, f"{path}/__init__.py"):
            found.append(f"{path}/__init__.py")
        elif _is_file(folder, f"{path}.py"):
            return [*found, f"{path}.py"]
        elif not is_folder(folder, path):
            return found
    return found


def _imports(file: SourceFile) -> Imports:
    package = tuple(file.path.split("/")[:-1])
    return Imports((), ()) if file.tree is None else imports_of(file.tree, package)


def _plain(text: str) -> str:
    """Short, and without the halves of characters that no encoding writes."""
    return text[:ERROR_CHARS].encode(errors="replace").decode()


def _is_file(folder: Path, path: str) -> bool:
    """A plain file that no link leads to; one that is too large is named when it is read."""
    try:
        with open_folder(folder, os.path.dirname(path)) as parent:
            return stat.S_ISREG(os.stat(os.path.basename(path), dir_fd=parent, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False
