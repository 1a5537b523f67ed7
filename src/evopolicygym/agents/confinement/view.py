"""What an agent sees of the system: programs, libraries, certificates; no Python's package folders, no home, no run.

The same list serves both levels: at A it is bound into a private root, at B it is what Landlock grants.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from evopolicygym.agents.confinement.cell import Cell
from evopolicygym.agents.confinement.python import system_roots
from evopolicygym.sandbox.runtime import beneath, cover, holes_of, runtime

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Where Pythons of the system keep packages: somebody may have installed a simulator there.
PACKAGE_PLACES: Final = ("/usr", "/usr/local", "/usr/lib64", "/usr/local/lib64")
ETC: Final = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives ca-certificates ca-certificates.conf crypto-policies ld.so.cache ld.so.conf ld.so.conf.d "
        "localtime magic mime.types os-release pki/ca-trust pki/tls protocols services ssl terminfo timezone"
    ).split()
)
RESOLVER: Final = ("/etc/hosts", "/etc/resolv.conf")


@dataclass(frozen=True)
class View:
    """Real paths. ``links`` are top-level links such as /bin; ``shown`` lies beneath ``holes`` and is shown again."""

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    holes: tuple[str, ...]
    shown: tuple[str, ...]
    etc: tuple[str, ...]

    def readable(self) -> tuple[str, ...]:
        """Everything without the holes."""
        covered = [path for tree in self.trees for path in cover(tree, self.holes)]
        return (*covered, *self.shown, *self.etc)

    def ways(self) -> tuple[str, ...]:
        """Folders on the way to a hole, which are not granted whole: an interpreter must list its library."""
        return tuple(tree for tree in self.trees if any(beneath(hole, tree) for hole in self.holes))


def view_of(cell: Cell) -> View:
    own = runtime()
    readable = [os.path.realpath(path) for path in cell.readable]
    system = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    libraries = [*system_roots(), *(os.path.realpath(path) for path in cell.libraries)]
    python = [cell.python.executable, *libraries]
    trees = _outermost([*system, *python, *readable, str(cell.python.folder)])
    holes = _holes([*PACKAGE_PLACES, *libraries])
    if any(beneath(own.harness, tree) for tree in trees) and not any(beneath(own.harness, hole) for hole in holes):
        holes = (*holes, own.harness)
    inner = [path for path in (*cell.python.packages, *readable) if not _sees(path, trees, holes)]
    return View(
        trees=trees,
        links=tuple((path, os.readlink(path)) for path in SYSTEM if os.path.islink(path)),
        holes=tuple(hole for hole in holes if any(beneath(hole, tree) for tree in trees)),
        shown=tuple(dict.fromkeys(inner)),
        etc=tuple(path for path in ETC if os.path.exists(path)),
    )


def _outermost(paths: list[str]) -> tuple[str, ...]:
    unique = sorted(dict.fromkeys(paths))
    return tuple(path for path in unique if not any(beneath(path, other) for other in unique if other != path))


def _holes(places: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hole for place in places for hole in holes_of(place)))


def _sees(path: str, trees: tuple[str, ...], holes: tuple[str, ...]) -> bool:
    return any(beneath(path, tree) for tree in trees) and not any(beneath(path, hole) for hole in holes)
