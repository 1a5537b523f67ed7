"""What an agent's process is given, and how it is kept apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.sandbox.agent.python import AgentPython
from evopolicygym.sandbox.packages import beneath

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
PROCESSES: Final = 2_048


class AgentLevel(StrEnum):
    """How an agent is kept apart. NONE is recorded as such."""

    A = "A"
    B = "B"
    NONE = "none"


class NetworkAccess(StrEnum):
    """ALLOWED: the door, and the model's hosts through a proxy. OPEN: everything. NONE: the door alone."""

    ALLOWED = "allowed"
    OPEN = "open"
    NONE = "none"


@dataclass(frozen=True)
class AgentSandbox:
    """All paths are the same inside as outside, and free of links. ``workspace`` is also the working directory;
    ``home`` and ``temporary`` belong to the run and are kept from turn to turn (at level A ``temporary`` is /tmp as
    well); ``feedback`` is shown read-only at ``workspace/feedback`` where mounts are possible. ``readable`` are more
    trees to read and run, ``libraries`` those of other Pythons, which are shown without their packages. ``hosts`` are
    ``host[:port]`` that the proxy lets through; ``ports`` are loopback ports of the judge's machine: the door, a local
    model."""

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

    def check(self, own: tuple[str, ...]) -> None:
        """Refuse to show what would show the run, the user's home or the judge's packages (``own``) with it."""
        for path in (self.workspace, self.home, self.temporary, *self.readable):
            if not path.exists():
                raise UserError(f"{path} is not there: an agent cannot be given it", "Create it, or leave it out.")
        home = os.path.realpath(os.path.expanduser("~"))
        private = (str(self.workspace.parent), home, f"{home}/.config", f"{home}/.ssh", *own)
        for shown in (*self.writable, *(os.path.realpath(path) for path in self.readable)):
            for hidden in private:
                if beneath(hidden, shown):
                    raise UserError(
                        f"an agent that sees {shown} sees {hidden}, which is the judge's",
                        "Show it a narrower folder, or put the runs elsewhere.",
                    )

    def full_environment(self, proxy: str | None) -> dict[str, str]:
        """Nothing of the judge's: what the cell says, over what every program expects to be told."""
        told = {"LANG": "C.UTF-8", "TMPDIR": str(self.temporary), "HOME": str(self.home), **self.environment}
        told["PATH"] = f"{self.python.folder}/bin:{self.environment.get('PATH', DEFAULT_PATH)}"
        told["PWD"] = str(self.workspace)
        return told | (_proxied(proxy) if proxy else {})


def _proxied(proxy: str) -> dict[str, str]:
    """Clients differ in the names they read. Loopback is reached without the proxy."""
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost"}
    return names | {name.lower(): value for name, value in names.items()} | {"NODE_USE_ENV_PROXY": "1"}
