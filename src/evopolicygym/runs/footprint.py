"""What must be seen to start a program that is not part of the system: where it is installed, and its interpreter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SYSTEM: Final = ("/usr/", "/bin/", "/lib")
PREFIXES: Final = ("/", "/usr", "/usr/local")


@dataclass(frozen=True)
class Footprint:
    """``readable`` is shown whole; of ``libraries``, which are other Pythons', the packages are not."""

    readable: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()


def footprint(program: Path) -> Footprint:
    roots = {_root(path) for path in (program, program.resolve(), *node())}
    pythons = [python.resolve() for root in roots if (python := root / "bin" / "python").exists() and _is_venv(root)]
    libraries = [python.parent.parent / "lib" for python in pythons]
    readable = {*_outside([*roots, *pythons]), *_own_packages(program.resolve())}
    return Footprint(tuple(sorted(readable)), _outside(library for library in libraries if library.is_dir()))


def node() -> list[Path]:
    """Many clients are scripts of it."""
    return [Path(found).resolve()] if (found := shutil.which("node")) else []


def _root(path: Path) -> Path:
    """The outermost ``node_modules`` above it; the folder of ``bin`` and ``lib`` that it is installed in; or itself."""
    packages = [parent for parent in path.parents if parent.name == "node_modules"]
    if packages:
        return packages[-1]
    prefix = path.parent.parent
    return prefix if path.parent.name == "bin" and (prefix / "lib").is_dir() else path


def _is_venv(root: Path) -> bool:
    """Its interpreter and standard library are elsewhere."""
    return os.path.exists(root / "pyvenv.cfg")


def _own_packages(program: Path) -> list[Path]:
    """Of the system's packages nothing is shown. A Python program with an environment of its own there needs that."""
    root = _root(program)
    if root == program or str(root) in PREFIXES or not str(root).startswith(SYSTEM):
        return []
    with open(program, "rb") as file:
        is_python = b"python" in b"".join(file.readline(256) for _ in range(2))  # of a long path, in the second line
    return [root] if is_python else []


def _outside(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted({path for path in paths if not str(path).startswith(SYSTEM)}))
