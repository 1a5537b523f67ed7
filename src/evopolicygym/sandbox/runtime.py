"""Files that a policy may read: its Python, numpy, scipy and the system's shared libraries, and nothing beside them.

Judge and policies use one virtual environment. The jail shows a policy only these folders of it, so that it does not
see the simulators and this package, which are installed next to numpy.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from evopolicygym.sandbox.package_scan import is_beneath, scan_packages

POLICY_PACKAGES: Final = ("numpy", "scipy")
# Never hidden, even if a `*.pth` file names one of them: no program would run.
NEEDED: Final = tuple(
    f"/usr{prefix}/{name}" for prefix in ("", "/local") for name in ("bin", "sbin", "lib", "lib64", "libexec", "share")
)


@dataclass(frozen=True)
class Runtime:
    """Folders and files, all as real paths. ``holes`` lie beneath ``roots`` and are hidden."""

    python: str
    package_root: str
    site: str
    packages: tuple[str, ...]
    roots: tuple[str, ...]
    holes: tuple[str, ...]

    def readable(self) -> tuple[str, ...]:
        """Return everything a policy may read, without the holes: the rules for Landlock without a private root."""
        covered = [path for root in self.roots for path in cover(root, self.holes)]
        return (*covered, *self.packages)


@cache
def runtime() -> Runtime:
    """Return the runtime of the running interpreter."""
    packages = [folder for name in POLICY_PACKAGES for folder in package_folders(name)]
    roots = tuple(dict.fromkeys(_real(path) for path in [*_python_roots(), *_library_roots()] if os.path.exists(path)))
    return Runtime(
        python=_real(sys.executable),
        package_root=_real(str(Path(__file__).parents[2])),
        site=os.path.dirname(packages[0]),
        packages=tuple(packages),
        roots=outermost(roots),
        holes=holes_of(roots),
    )


def _real(path: str) -> str:
    return os.path.realpath(path)


def package_folders(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{name} is not installed: pip install {name}")
    package = _real(spec.submodule_search_locations[0])
    return [path for path in (package, f"{package}.libs") if os.path.isdir(path)]


def _python_roots() -> list[str]:
    """Return the standard library; for a Python outside /usr also the folder of its own shared libraries."""
    own = [] if _real(sys.base_prefix) == "/usr" else [os.path.join(sys.base_prefix, "lib")]
    return [*own, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_prefix})]


def _library_roots() -> list[str]:
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    folders = [f"{prefix}/lib/{multiarch}" for prefix in ("", "/usr")]
    if not (multiarch and os.path.isdir(folders[1])):
        folders = ["/lib", "/usr/lib"]
    return [*folders, "/lib64", "/usr/lib64", "/etc/ld.so.cache"]


def holes_of(roots: Iterable[str]) -> tuple[str, ...]:
    """Return what must not be shown beneath ``roots``: package folders and simulators, but none that contains one of
    ``roots`` or what every program needs. Outermost paths only."""
    roots = tuple(roots)
    scans = [scan_packages(root) for root in outermost(roots)]
    candidates = [path for scan in scans for path in (*scan.packages, *scan.simulators)]
    return outermost(path for path in candidates if is_within(path, roots) and not is_needed(path, roots))


def is_within(path: str, roots: Iterable[str]) -> bool:
    return any(is_beneath(path, root) for root in roots)


def is_needed(path: str, roots: Iterable[str] = ()) -> bool:
    """Whether hiding ``path`` would hide one of ``roots``, or what every program needs."""
    return any(is_beneath(needed, path) for needed in (*roots, *NEEDED))


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.rstrip("/") + "/"):
        if not (kept and is_beneath(path, kept[-1])):
            kept.append(path)
    return tuple(kept)


def cover(root: str, holes: tuple[str, ...]) -> list[str]:
    """Return the shortest list of paths that covers ``root`` but none of ``holes``."""
    if root in holes:
        return []
    if not any(is_beneath(hole, root) for hole in holes):
        return [root]
    children = [entry.path for entry in os.scandir(root) if not entry.is_symlink()]
    return [path for child in sorted(children) for path in cover(child, holes)]
