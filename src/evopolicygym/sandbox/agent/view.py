"""What an agent sees of the system: programs, libraries, certificates; no Python's package folders, no simulator
elsewhere, no home, no run.

The same list serves both levels: at A it is bound into a private root, at B it is what Landlock grants.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.sandbox.agent.agent_sandbox import AgentSandbox
from evopolicygym.sandbox.agent.python import base_executable, system_roots
from evopolicygym.sandbox.packages import beneath
from evopolicygym.sandbox.runtime import cover, holes_of, is_needed, is_within, outermost, runtime

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC: Final = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives ca-certificates ca-certificates.conf crypto-policies ld.so.cache ld.so.conf ld.so.conf.d "
        "localtime magic mime.types os-release pki/ca-trust pki/tls protocols services ssl terminfo timezone"
    ).split()
)
RESOLVER: Final = ("/etc/hosts", "/etc/resolv.conf")


@dataclass(frozen=True)
class VisibleFiles:
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


def view_of(cell: AgentSandbox) -> VisibleFiles:
    readable = outermost(os.path.realpath(path) for path in cell.readable)
    searched = searched_trees(cell.libraries)
    trees = outermost([*searched, *readable, str(cell.python.folder)])
    holes = holes_among(searched, readable)
    given = dict.fromkeys([*cell.python.packages, *readable])
    return VisibleFiles(
        trees=trees,
        links=tuple((path, os.readlink(path)) for path in SYSTEM if os.path.islink(path)),
        holes=holes,
        shown=tuple(path for path in given if is_within(path, holes) or not is_within(path, trees)),
        etc=tuple(path for path in ETC if os.path.exists(path)),
    )


def searched_trees(libraries: Iterable[Path] = ()) -> tuple[str, ...]:
    """What every agent is shown of the system, and Pythons: all without packages and simulators."""
    system = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    return outermost([*system, base_executable(), *system_roots(), *(os.path.realpath(path) for path in libraries)])


def holes_among(searched: tuple[str, ...], readable: tuple[str, ...]) -> tuple[str, ...]:
    """Package folders, simulators, and whatever else the judge imports from. What lies in a tree that is shown on
    purpose is not hidden: a client needs its own packages."""
    own = [path for path in _import_path() if is_within(path, searched) and not is_needed(path, searched)]
    holes = outermost([*holes_of(searched), *own])
    return tuple(hole for hole in holes if not is_within(hole, readable))


def _import_path() -> list[str]:
    """Of the judge, with this package, without the standard library and the folder of the script that was started."""
    named = [runtime().harness, *sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_prefix})]
    needed = [os.path.realpath(path) for path in (*library, os.path.dirname(os.path.realpath(sys.argv[0])))]
    real = (os.path.realpath(path) for path in named if path and os.path.exists(path))
    return [path for path in real if not is_within(path, needed)]
