"""Files of the system that an agent sees: programs, libraries, certificates; but no package folders of any Python, no
simulators elsewhere, no home, no run.

The same list serves both levels: at A it is bound into a private root, at B Landlock grants it. ``exposure`` reports
what on this machine can simulate, and whether agents see it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.sandbox.agent.agent_sandbox import AgentSandbox, NetworkAccess, base_executable
from evopolicygym.sandbox.landlock import FileGrant
from evopolicygym.sandbox.package_scan import is_beneath, scan_packages, simulators_beneath, simulators_in
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

# Granted at level B; at level A the private root has its own.
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
# The kernel checks only the owner of a terminal: granted only where the agent is a user of its own.
TERMINALS: Final = ("/dev/ptmx", "/dev/pts")
# Facts about the machine, not about its processes.
MACHINE_FACTS: Final = tuple(
    f"/proc/{name}" for name in "cpuinfo filesystems loadavg meminfo stat swaps sys uptime version vmstat".split()
)
# Where a program finds the bounds of its stack; some (Bun 1.3) abort without it. Resolved by the process that confines
# itself, so that it is the program's own map: not that of another process, nor of a child of the program.
OWN_MEMORY_MAP: Final = "/proc/self/maps"
IDENTITY: Final = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts")


@dataclass(frozen=True)
class VisibleFiles:
    """Real paths. ``links`` are links such as /bin, with their targets; ``holes`` are hidden; ``shown`` lies beneath
    ``holes`` and is shown nevertheless."""

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    holes: tuple[str, ...]
    shown: tuple[str, ...]
    etc: tuple[str, ...]

    def readable(self) -> tuple[str, ...]:
        """Return everything but the holes."""
        covered = [path for tree in self.trees for path in cover(tree, self.holes)]
        return (*covered, *self.shown, *self.etc)

    def listable(self) -> tuple[str, ...]:
        """Return trees with holes. They are not granted as a whole, but an interpreter must list its library."""
        return tuple(tree for tree in self.trees if any(is_beneath(hole, tree) for hole in self.holes))


def links_outside(paths: Iterable[Path], trees: tuple[str, ...]) -> list[str]:
    """Return those of some paths that are links, unless they lie in trees that are shown anyway."""
    real = (os.path.join(os.path.realpath(path.parent), path.name) for path in paths if path.is_symlink())
    return [path for path in dict.fromkeys(real) if not is_within(path, trees)]


def visible_files(sandbox: AgentSandbox) -> VisibleFiles:
    readable = outermost(os.path.realpath(path) for path in sandbox.readable)
    searched = searched_trees(sandbox.libraries)
    trees = outermost([*searched, *readable, str(sandbox.python.folder)])
    holes = holes_among(searched, readable)
    shown = dict.fromkeys([*sandbox.python.packages, *readable])
    links = [path for path in SYSTEM if os.path.islink(path)] + links_outside(sandbox.readable, trees)
    return VisibleFiles(
        trees=trees,
        links=tuple((path, os.readlink(path)) for path in links),
        holes=holes,
        shown=tuple(path for path in shown if is_within(path, holes) or not is_within(path, trees)),
        etc=tuple(path for path in ETC if os.path.exists(path)),
    )


def searched_trees(libraries: Iterable[Path] = ()) -> tuple[str, ...]:
    """Return the trees of the system and of Pythons that agents are shown without packages and simulators."""
    system = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    return outermost([*system, base_executable(), *runtime().roots, *(os.path.realpath(path) for path in libraries)])


def holes_among(searched: tuple[str, ...], readable: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to hide: package folders, simulators, and whatever else the judge imports from. A tree that is shown
    on purpose (``readable``) has no holes: a client needs its own packages."""
    imported = [path for path in _import_path() if is_within(path, searched) and not is_needed(path, searched)]
    holes = outermost([*holes_of(searched), *imported])
    return tuple(hole for hole in holes if not is_within(hole, readable))


def _import_path() -> list[str]:
    """Return the judge's import path and this package, without the standard library and the started script's folder."""
    named = [runtime().package_root, *sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_prefix})]
    needed = [os.path.realpath(path) for path in (*library, os.path.dirname(os.path.realpath(sys.argv[0])))]
    real = (os.path.realpath(path) for path in named if path and os.path.exists(path))
    return [path for path in real if not is_within(path, needed)]


def grant_of(sandbox: AgentSandbox, visible: VisibleFiles, own_user: bool, ports: tuple[int, ...]) -> FileGrant:
    """Return the rules for Landlock, which confines an agent that has no private root (level B)."""
    open_network = sandbox.network is NetworkAccess.OPEN
    read = (*visible.readable(), *MACHINE_FACTS, *IDENTITY, *(RESOLVER if open_network else ()))
    return FileGrant(
        read=(*_existing(read), OWN_MEMORY_MAP),
        browse=_existing(visible.listable()),
        change=sandbox.writable,
        devices=_existing((*DEVICES, *(TERMINALS if own_user else ()))),
        connect=None if open_network else ports,
    )


def _existing(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


@dataclass(frozen=True)
class Exposure:
    """Simulators on this machine. ``hidden``: folders and files that agents do not see; ``hidden_simulators``:
    simulators, by name, that are among these or directly in them; ``seen``: simulators that are shown; ``unsearched``:
    trees with too many folders to look at all of them."""

    hidden: tuple[str, ...]
    hidden_simulators: tuple[str, ...]
    seen: tuple[str, ...]
    unsearched: tuple[str, ...]

    def residues(self) -> tuple[str, ...]:
        """Describe the exposure for the record, which holds no paths of this machine."""
        names = ", ".join(sorted({os.path.basename(path) for path in self.seen}))
        seen = (f"off-budget simulation: among what is shown to it there is {names}",)
        unsearched = ("not all of what is shown to it was searched for simulators: it has too many folders",)
        return (*(seen if self.seen else ()), *(unsearched if self.unsearched else ()))


def exposure(readable: Iterable[Path] = (), libraries: Iterable[Path] = ()) -> Exposure:
    """Return the exposure to an agent that is shown all of ``readable``, and ``libraries`` without their packages."""
    shown = outermost(os.path.realpath(path) for path in readable)
    searched = searched_trees(libraries)
    holes = holes_among(searched, shown)
    hidden = [path for hole in holes for path in simulators_in(hole)]
    unhidden = [path for tree in searched for path in scan_packages(tree).simulators if not is_within(path, holes)]
    granted = [path for tree in shown for path in simulators_beneath(tree) if is_within(path, shown)]
    return Exposure(
        hidden=holes,
        hidden_simulators=tuple(path for path in hidden if not is_within(path, shown)),
        seen=tuple(sorted({path for path in (*unhidden, *granted) if is_within(path, (*searched, *shown))})),
        unsearched=tuple(tree for tree in (*searched, *shown) if not scan_packages(tree).complete),
    )
