"""Messages between an engine and its workers: length-prefixed JSON of typed records. Both ends are the judge's."""

from __future__ import annotations

import socket
import struct
from typing import Final, TypeVar

import msgspec

LENGTH: Final = struct.Struct("<Q")
T = TypeVar("T")


def send(connection: socket.socket, record: object) -> None:
    data = msgspec.json.encode(record)
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, kind: type[T]) -> T | None:
    """The next record; None when the other end is gone."""
    head = _exactly(connection, LENGTH.size)
    data = _exactly(connection, LENGTH.unpack(head)[0]) if head else b""
    return msgspec.json.decode(data, type=kind) if data else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        try:
            part = connection.recv(min(size, 1 << 20))
        except ConnectionError:
            return b""
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
