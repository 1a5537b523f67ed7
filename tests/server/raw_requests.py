"""HTTP requests to the API written by hand, byte by byte, and a gate that keeps a submission running."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from server_helpers import Server


class Gate:
    """A file that ``toys:Gated-v0`` waits for: while the gate is shut, a submission keeps running."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()

    def open(self) -> None:
        self.path.touch()

    def shut(self) -> None:
        self.path.unlink()


def wait_for_verdict(server: Server, submit_id: str) -> dict[str, Any]:
    while (answer := server.call("GET", f"/submissions/{submit_id}")[1])["status"] == "running":
        time.sleep(0.02)
    return answer


def connect(server: Server) -> socket.socket:
    address = urlsplit(server.api)
    return socket.create_connection((address.hostname or "", address.port or 0), 60)


def request_head(server: Server, *lines: str, method: str = "POST", path: str = "/submit") -> bytes:
    return "\r\n".join([f"{method} {urlsplit(server.api).path}{path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def read_response(connection: socket.socket) -> tuple[int, str]:
    """Return status code and body of the next response."""
    with connection.makefile("rb") as answer:
        code = int(answer.readline().split()[1])
        headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(answer.readline, b"\r\n"))
        return code, answer.read(int(headers["content-length"])).decode()
