"""Hosts that an agent may reach: the decisions of its proxy. ``network.py`` does the transport."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

HTTPS: Final = 443
LOOPBACK: Final = ("127.0.0.1", "localhost")
NAME: Final = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)"  # no wildcards: a request cannot name *.org
HOST: Final = re.compile(rf"{NAME}(?::(\d{{1,5}}))?", re.ASCII)
REQUEST: Final = re.compile(rf"CONNECT {NAME}:(\d{{1,5}}) HTTP/1\.[01]\r?\n".encode())


@dataclass(frozen=True)
class Destination:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class ProxyRefusal(Exception):
    """The HTTP status and the text that the client is shown."""

    def __init__(self, status: str, text: str, destination: Destination | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.destination = status, text, destination

    def response(self) -> bytes:
        body = f"{self.text}\n".encode()
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body


class AllowList:
    """The ``host[:port]`` that may be reached, and loopback ports of the judge's machine."""

    def __init__(self, hosts: Iterable[str], ports: Iterable[int]) -> None:
        self.hosts = frozenset(parse(host) for host in hosts)
        self._ports = frozenset(ports)
        self._addresses = frozenset(destination.host for destination in self.hosts)

    def requested(self, head: bytes) -> Destination:
        """Parse the head of a request. Raises ProxyRefusal unless it is a CONNECT to an allowed host."""
        match = REQUEST.match(head)
        if match is None:
            raise ProxyRefusal("405 Method Not Allowed", "This proxy supports CONNECT only: use https.")
        wanted = Destination(match[1].decode().strip("[]").lower().rstrip("."), int(match[2]))
        if wanted in self.hosts or (wanted.host in LOOPBACK and wanted.port in self._ports):
            return wanted
        allowed = ", ".join(sorted(map(str, self.hosts))) or "none"
        raise ProxyRefusal("403 Forbidden", f"{wanted} is not on this run's list of hosts: {allowed}", wanted)

    def permitted(self, wanted: Destination, addresses: Iterable[str]) -> list[str]:
        """Return the addresses of an allowed host that may be connected to: private ones only if they are listed."""
        if wanted.host in LOOPBACK and wanted.port in self._ports:
            return ["127.0.0.1"]
        resolved = list(dict.fromkeys(addresses))
        permitted = [
            address for address in resolved if ipaddress.ip_address(address).is_global or address in self._addresses
        ]
        if not permitted:
            raise ProxyRefusal(
                "403 Forbidden",
                f"{wanted} is at {', '.join(resolved) or 'no address'}, which is not public: list the address as well",
                wanted,
            )
        return permitted


def parse(host: str) -> Destination:
    """Parse ``api.example.org``, ``api.example.org:8443``, ``10.0.0.7``, ``[::1]:8080``."""
    match = HOST.fullmatch(host.strip())
    name, port = (match[1].strip("[]").lower().rstrip("."), int(match[2] or HTTPS)) if match else ("", 0)
    if not (name and 0 < port < 1 << 16):
        raise ValueError(f"{host!r} is not host or host:port")
    return Destination(name, port)
