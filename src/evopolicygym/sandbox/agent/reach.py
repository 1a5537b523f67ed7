"""What a cell can reach over the network, seen from the judge."""

from __future__ import annotations

import socket
from typing import Final

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, NetworkAccess
from evopolicygym.sandbox.agent.allow_list import AllowList
from evopolicygym.sandbox.agent.gateway import Gateway, ProxyTraffic

PROXY_PORT: Final = 3128


class AgentNetwork:
    """What the cell can reach. At level A everything is relayed; at B the proxy is on the host's loopback."""

    def __init__(self, cell: AgentSandbox, level: AgentLevel) -> None:
        self._allowed = AllowList(cell.hosts, cell.ports)
        self._gateway: Gateway | None = None
        self._own = level is AgentLevel.A and cell.network is not NetworkAccess.OPEN
        self._proxy: socket.socket | None = None
        proxied = level is not AgentLevel.NONE and cell.network is NetworkAccess.ALLOWED
        if proxied and not self._own:
            self._proxy = socket.create_server(("127.0.0.1", 0))
        port = self._proxy.getsockname()[1] if self._proxy else _free_port(cell.ports)
        self.proxy = f"http://127.0.0.1:{port}" if proxied else None
        self.reachable = (*cell.ports, *([port] if proxied else []))

    @property
    def relayed(self) -> tuple[int, ...]:
        return self.reachable if self._own else ()

    def open(self, listeners: list[socket.socket]) -> None:
        relays = dict(zip(self.relayed, listeners, strict=True))
        if self._own and self.proxy:
            self._proxy = relays.pop(self.reachable[-1])
        if relays or self._proxy:
            self._gateway = Gateway(relays, self._proxy, self._allowed)

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        return self._gateway.traffic() if self._gateway else ()

    def close(self) -> None:
        if self._gateway:
            self._gateway.close()
        elif self._proxy:
            self._proxy.close()


def _free_port(taken: tuple[int, ...]) -> int:
    return next(port for port in range(PROXY_PORT, PROXY_PORT + len(taken) + 1) if port not in taken)
