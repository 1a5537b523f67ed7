"""Messages between an engine and its worker processes: length-prefixed JSON of typed records.

Both ends belong to the judge; nothing that a policy or an agent wrote is decoded here.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from evopolicygym.execution.records import Episode, EpisodeResult, LoadResult
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task

LENGTH: Final = struct.Struct("<Q")
T = TypeVar("T")


@dataclass(frozen=True)
class WorkerSettings:
    """The first message to a new worker. It holds no case: the zygote is started before any case is known."""

    task: Task
    environment: tuple[tuple[bytes, bytes], ...]
    checkpoints: str
    stage_is_temporary: bool
    levels: tuple[Level, ...]
    core: int
    video: bool
    stock: bool


@dataclass(frozen=True)
class WorkerHello:
    """The first message from a worker: the level achieved and the live spaces, or why it cannot work. ``errno`` is the
    system's error number for that, if there is one."""

    level: Level = Level.NONE
    obs_space: dict[str, Any] = field(default_factory=dict)
    action_space: dict[str, Any] = field(default_factory=dict)
    not_isolated: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    errno: int | None = None


@dataclass(frozen=True)
class WorkerRequest:
    """Request to a worker: play an episode or, without one, only load the checkpoint."""

    checkpoint: Checkpoint
    episode: Episode | None = None


@dataclass(frozen=True)
class WorkerAnswer:
    """Answer of a worker: a result, a load or a fault. ``permanent`` as in Fault."""

    result: EpisodeResult | None = None
    load: LoadResult | None = None
    fault: str | None = None
    permanent: bool = False


def send(connection: socket.socket, record: object) -> None:
    data = msgspec.json.encode(record)
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, kind: type[T]) -> T | None:
    """Return the next record; None when the other end is gone."""
    head = _read_exactly(connection, LENGTH.size)
    data = _read_exactly(connection, LENGTH.unpack(head)[0]) if head else b""
    return msgspec.json.decode(data, type=kind) if data else None


def _read_exactly(connection: socket.socket, size: int) -> bytes:
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
