"""What the head and a seat tell each other: typed records as bytes, so that nothing else is ever unpickled."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from evopolicygym.errors import Fault
from evopolicygym.execution.records import Episode, LoadResult, Node, WorkerAnswer
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task

T = TypeVar("T")
PackedFiles = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class EngineConfig:
    """What is played and how. ``bit_id`` is the head's: a node that finds another for itself does not play."""

    task: Task
    levels: tuple[Level, ...]
    video: bool
    stock: bool
    bit_id: str

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(encode(self)).hexdigest()


@dataclass(frozen=True)
class RemoteRequest:
    """To a seat: play the episodes; without any, load the checkpoint; without one, only prepare the scene."""

    scene: str
    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()


@dataclass(frozen=True)
class EngineInfo:
    """A seat's engine, as it is once it has started."""

    level: Level
    implementation: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]


@dataclass(frozen=True)
class RemoteReply:
    """From a seat. ``needs`` names what it must be sent first; ``refused`` says why it does not play at all;
    ``answers`` and ``recordings`` are in the order of the episodes."""

    node: Node | None = None
    needs: tuple[str, ...] = ()
    refused: str = ""
    fault: str = ""
    permanent: bool = False
    prepared: EngineInfo | None = None
    load: LoadResult | None = None
    answers: tuple[WorkerAnswer, ...] = ()
    recordings: tuple[PackedFiles, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class PackedFolder:
    """The files of a checkpoint."""

    files: PackedFiles


ENGINE_CONFIG, CHECKPOINT = "scene", "checkpoint"


def encode(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)


def pack_files(folder: Path) -> PackedFiles:
    """Every file, and with a slash at its end every folder, which may be empty."""
    found: list[tuple[str, bytes]] = []
    for parent, folders, files in os.walk(folder):
        place = Path(parent)
        found += [(f"{(place / name).relative_to(folder)}/", b"") for name in folders]
        found += [(str((place / name).relative_to(folder)), (place / name).read_bytes()) for name in files]
    return tuple(sorted(found))


def unpack_files(files: PackedFiles, folder: Path) -> None:
    """Below ``folder``, and nowhere else."""
    for name, data in files:
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise Fault(f"{name!r} does not lie in the folder that it was sent for")
        if name.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def pack_checkpoint(folder: Path) -> bytes:
    return encode(PackedFolder(pack_files(folder)))


def unpack_checkpoint(data: bytes, expected: Checkpoint, store: CheckpointStore) -> None:
    """Into the store, hashed again on arrival."""
    store.root.mkdir(parents=True, exist_ok=True)
    arrived = Path(tempfile.mkdtemp(prefix=".arrived-", dir=store.root))
    try:
        unpack_files(decode(data, PackedFolder).files, arrived)
        found = store.snapshot(arrived, is_stored=True)
    finally:
        remove_tree(arrived)
    if found != expected:
        remove_tree(store.folder(found))
        raise Fault(f"checkpoint {expected.hash[:16]} arrived as {found.hash[:16]}")
