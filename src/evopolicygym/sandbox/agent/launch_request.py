"""What the judge sends the supervisor: one line of JSON that describes the whole sandbox and the program to start."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import Any, Self

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.visible_files import VisibleFiles
from evopolicygym.sandbox.landlock import FileGrant


@dataclass(frozen=True)
class Layers:
    """The layers that the agent's process puts on itself just before it becomes the program (``program.lay``).

    ``uid``: a user of its own, when the judge is root. ``grant``: the rules for Landlock, at level B."""

    level: AgentLevel
    network: NetworkAccess
    uid: int | None
    processes: int
    grant: FileGrant | None
    max_landlock_abi: int | None


@dataclass(frozen=True)
class LaunchRequest:
    """``writable``, ``temporary``, ``feedback`` and ``visible`` make up the private root; the supervisor listens on
    ``ports`` in the agent's network namespace; ``passed_folders`` are folders that the agent's user must be able to
    pass through. ``hidden`` and ``judge`` must be out of reach and ``needed`` within reach, which is tried before the
    program starts."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    workspace: str
    home: str
    temporary: str
    writable: tuple[str, ...]
    feedback: str | None
    visible: VisibleFiles
    ports: tuple[int, ...]
    hidden: tuple[str, ...]
    needed: tuple[str, ...]
    passed_folders: tuple[str, ...]
    judge: int
    layers: Layers

    @property
    def private(self) -> bool:
        """Whether the agent has namespaces and a private root."""
        return self.layers.level is AgentLevel.A

    @property
    def own_network(self) -> bool:
        return self.private and self.layers.network is not NetworkAccess.OPEN

    def send(self, control: socket.socket) -> None:
        control.sendall(json.dumps(asdict(self)).encode() + b"\n")

    @classmethod
    def read(cls, control: socket.socket) -> Self:
        """Read one line. Peeks first: bytes after it must stay in the socket, and reading single bytes is slow."""
        data = b""
        while not data.endswith(b"\n"):
            ahead = control.recv(1 << 16, socket.MSG_PEEK)
            if not ahead:
                raise EOFError("the judge is gone")
            end = ahead.find(b"\n") + 1
            data += control.recv(end or len(ahead))
        return cls._from_json(json.loads(data))

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        layers = fields["layers"]
        grant = layers["grant"]
        layers |= {
            "level": AgentLevel(layers["level"]),
            "network": NetworkAccess(layers["network"]),
            "grant": FileGrant(**_tuples(grant)) if grant else None,
        }
        visible = VisibleFiles(**_tuples(fields["visible"]))
        return cls(**_tuples(fields | {"layers": Layers(**layers), "visible": visible}))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
