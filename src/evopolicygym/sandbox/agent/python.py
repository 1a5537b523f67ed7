"""The Python of an agent: the judge's interpreter with numpy, scipy and named packages, and nothing else of it.

It is a folder of links, shaped like a virtual environment, so that it works with and without mounts: what the links
point to is shown, what lies beside it is not.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from evopolicygym.errors import UserError
from evopolicygym.sandbox.runtime import POLICY_PACKAGES, runtime


@dataclass(frozen=True)
class AgentPython:
    """``folder/bin`` goes first in PATH. ``packages`` are the folders and files that its links lead to."""

    folder: Path
    executable: str
    packages: tuple[str, ...]


def make_python(folder: Path, packages: Iterable[str] = ()) -> AgentPython:
    """Lay the links into ``folder`` (again, if need be). ``packages``: pure Python, by the name that is imported."""
    folder = folder.resolve()
    names = dict.fromkeys([*POLICY_PACKAGES, *packages])
    parts = [part for name in names for part in _parts(name)]
    executable = base_executable()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    for made in (folder / "bin", site):
        made.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in ("python", "python3", version):
        _link(folder / "bin" / name, executable)
    for part in parts:
        _link(site / os.path.basename(part), part)
    (folder / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(executable)}\ninclude-system-site-packages = false\n"
        f"version = {sys.version.split()[0]}\n"
    )
    return AgentPython(folder, executable, tuple(parts))


def base_executable() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def system_roots() -> tuple[str, ...]:
    """What the interpreter itself needs: its standard library and shared libraries."""
    return runtime().roots


def _parts(name: str) -> list[str]:
    """Its folder or file, its shared libraries, and what is known about it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise UserError(f"an agent's Python cannot have {name}: it is not installed here", f"pip install {name}")
    where = spec.submodule_search_locations[0] if spec.submodule_search_locations else str(spec.origin)
    package = os.path.realpath(where)
    about = glob(os.path.join(os.path.dirname(package), f"{glob_escape(name)}-*.dist-info"))
    return [path for path in (package, f"{package}.libs", *about) if os.path.exists(path)]


def glob_escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _link(link: Path, target: str) -> None:
    if link.is_symlink():
        link.unlink()
    link.symlink_to(target)
