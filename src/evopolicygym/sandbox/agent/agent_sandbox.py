"""Sandbox of an agent's process: folders, a Python, an environment, network access; and how it is isolated."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from glob import glob
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.sandbox.package_scan import is_beneath
from evopolicygym.sandbox.runtime import POLICY_PACKAGES

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
PROCESSES: Final = 2_048


class AgentLevel(StrEnum):
    """Isolation level of an agent. NONE is recorded as such."""

    A = "A"
    B = "B"
    NONE = "none"


class NetworkAccess(StrEnum):
    """ALLOWED: the run's API, and the model's hosts through a proxy. OPEN: everything. NONE: the API alone."""

    ALLOWED = "allowed"
    OPEN = "open"
    NONE = "none"


@dataclass(frozen=True)
class AgentPython:
    """The Python of an agent: the judge's interpreter with numpy, scipy and named packages, without its other packages.

    It is a folder of links, shaped like a virtual environment, so that it works with and without mounts: the targets of
    the links are shown to the agent, what lies beside them is not. ``folder/bin`` goes first in PATH. ``packages`` are
    the targets: folders and files."""

    folder: Path
    executable: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class AgentSandbox:
    """Description of the sandbox of one agent process.

    All paths are the same inside as outside, and contain no links. ``workspace`` is also the working directory;
    ``home`` and ``temporary`` belong to the run and are kept from turn to turn (at level A ``temporary`` is /tmp as
    well); ``feedback`` is shown read-only at ``workspace/feedback`` where mounts are possible. ``readable`` are more
    trees to read and execute, ``libraries`` those of other Pythons, which are shown without their packages. ``hosts``
    are the ``host[:port]`` that the proxy lets through; ``ports`` are loopback ports of the judge's machine: the run's
    API, a local model."""

    workspace: Path
    home: Path
    temporary: Path
    python: AgentPython
    feedback: Path | None = None
    readable: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    network: NetworkAccess = NetworkAccess.ALLOWED
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    processes: int = PROCESSES

    def __post_init__(self) -> None:
        for name in ("workspace", "home", "temporary"):
            object.__setattr__(self, name, getattr(self, name).resolve())

    @property
    def writable(self) -> tuple[str, ...]:
        return str(self.workspace), str(self.home), str(self.temporary)

    def check(self, judge_folders: tuple[str, ...]) -> None:
        """Raise UserError if a shown folder contains the run, the user's home or one of ``judge_folders``."""
        for path in (self.workspace, self.home, self.temporary, *self.readable):
            if not path.exists():
                raise UserError(f"{path} does not exist: it cannot be shown to an agent", "Create it, or leave it out.")
        home = os.path.realpath(os.path.expanduser("~"))
        private = (str(self.workspace.parent), home, f"{home}/.config", f"{home}/.ssh", *judge_folders)
        for shown in (*self.writable, *(os.path.realpath(path) for path in self.readable)):
            for hidden in private:
                if is_beneath(hidden, shown):
                    raise UserError(
                        f"an agent that sees {shown} also sees {hidden}, which belongs to the judge",
                        "Show it a narrower folder, or put the runs elsewhere.",
                    )

    def full_environment(self, proxy: str | None) -> dict[str, str]:
        """Return the environment of the program: ``environment`` over what every program expects. Nothing is taken over
        from the judge's own environment."""
        variables = {"LANG": "C.UTF-8", "TMPDIR": str(self.temporary), "HOME": str(self.home), **self.environment}
        variables["PATH"] = f"{self.python.folder}/bin:{self.environment.get('PATH', DEFAULT_PATH)}"
        variables["PWD"] = str(self.workspace)
        return variables | (_proxy_variables(proxy) if proxy else {})


def _proxy_variables(proxy: str) -> dict[str, str]:
    """Set every name that clients read, as they differ. Loopback is reached without the proxy."""
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost"}
    return names | {name.lower(): value for name, value in names.items()} | {"NODE_USE_ENV_PROXY": "1"}


def make_python(folder: Path, packages: Iterable[str] = ()) -> AgentPython:
    """Make ``folder`` anew, with its links: in a resumed run it may come from another person, with links of theirs on
    the way. ``packages``: pure Python packages, by import name."""
    names = dict.fromkeys([*POLICY_PACKAGES, *packages])
    parts = [part for name in names for part in _package_parts(name)]
    executable = base_executable()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    remove_tree(folder)
    folder.mkdir(mode=0o755, parents=True)  # fails if anything was left
    folder = folder.resolve()
    site = folder / "lib" / version / "site-packages"
    for subfolder in (folder / "bin", site):
        subfolder.mkdir(mode=0o755, parents=True)
    for name in ("python", "python3", version):
        (folder / "bin" / name).symlink_to(executable)
    for part in parts:
        (site / os.path.basename(part)).symlink_to(part)
    (folder / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(executable)}\ninclude-system-site-packages = false\n"
        f"version = {sys.version.split()[0]}\n"
    )
    return AgentPython(folder, executable, tuple(parts))


def base_executable() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _package_parts(name: str) -> list[str]:
    """Return a package's folder or file, its shared libraries, and its metadata."""
    spec = importlib.util.find_spec(name)
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise UserError(f"an agent's Python cannot have {name}: it is not installed here", f"pip install {name}")
    origin = spec.submodule_search_locations[0] if spec.submodule_search_locations else str(spec.origin)
    package = os.path.realpath(origin)
    metadata = glob(os.path.join(os.path.dirname(package), f"{_glob_escape(name)}-*.dist-info"))
    return [path for path in (package, f"{package}.libs", *metadata) if os.path.exists(path)]


def _glob_escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
