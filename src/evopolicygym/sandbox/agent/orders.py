"""What the judge tells the warden: one line of JSON, from which the whole cell follows."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import Any, Self

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.layers import Layers
from evopolicygym.sandbox.agent.view import VisibleFiles
from evopolicygym.sandbox.landlock import FileGrant


@dataclass(frozen=True)
class LaunchRequest:
    """``writable``, ``temporary``, ``feedback`` and ``view`` make the private root; ``ports`` are listened at in a
    network namespace; ``reached`` are folders that the agent's user must be let through. ``hidden`` and ``judge`` must
    be out of reach and ``needed`` within, which is tried before the program starts."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    workspace: str
    home: str
    temporary: str
    writable: tuple[str, ...]
    feedback: str | None
    view: VisibleFiles
    ports: tuple[int, ...]
    hidden: tuple[str, ...]
    needed: tuple[str, ...]
    reached: tuple[str, ...]
    judge: int
    layers: Layers

    @property
    def private(self) -> bool:
        return self.layers.level is AgentLevel.A

    @property
    def own_network(self) -> bool:
        return self.private and self.layers.network is not NetworkAccess.OPEN

    def send(self, control: socket.socket) -> None:
        control.sendall(json.dumps(asdict(self)).encode() + b"\n")

    @classmethod
    def read(cls, control: socket.socket) -> Self:
        """A byte at a time would be slow, and what follows the line is not ours to take: so it is peeked at."""
        data = b""
        while not data.endswith(b"\n"):
            ahead = control.recv(1 << 16, socket.MSG_PEEK)
            if not ahead:
                raise EOFError("the judge is gone")
            end = ahead.find(b"\n") + 1
            data += control.recv(end or len(ahead))
        return cls._from(json.loads(data))

    @classmethod
    def _from(cls, told: dict[str, Any]) -> Self:
        layers = told["layers"]
        grant = layers["grant"]
        layers |= {
            "level": AgentLevel(layers["level"]),
            "network": NetworkAccess(layers["network"]),
            "grant": FileGrant(**_tuples(grant)) if grant else None,
        }
        return cls(**_tuples(told | {"layers": Layers(**layers), "view": VisibleFiles(**_tuples(told["view"]))}))


def _tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
