"""Messages between the head and a remote worker: typed records as bytes, so that nothing else is unpickled.

Folders travel as lists of files: checkpoints to a node, recordings back.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from evopolicygym.errors import Fault
from evopolicygym.execution.messages import WorkerAnswer
from evopolicygym.execution.records import Episode, LoadResult, Node
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task

T = TypeVar("T")
PackedFiles = tuple[tuple[str, bytes], ...]
ENGINE_CONFIG, CHECKPOINT = "engine_config", "checkpoint"  # what a worker may need to be sent first
ARRIVING: Final = ".arrived-"


@dataclass(frozen=True)
class EngineConfig:
    """Task and settings of a worker. ``bit_id`` is the head's: a node that computes another one does not play."""

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
    """Request to a worker: play the episodes; without them, load the checkpoint; without a checkpoint, only start the
    engine. ``config`` is the key of an EngineConfig."""

    config: str
    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()


@dataclass(frozen=True)
class EngineInfo:
    """A worker's engine, once it has started."""

    level: Level
    implementation: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]


@dataclass(frozen=True)
class RemoteReply:
    """Reply of a worker. ``needs`` names what it must be sent first; ``refused`` says why it does not play at all;
    ``answers`` and ``recordings`` are in the order of the episodes."""

    node: Node | None = None
    needs: tuple[str, ...] = ()
    refused: str = ""
    fault: str = ""
    permanent: bool = False
    engine: EngineInfo | None = None
    load: LoadResult | None = None
    answers: tuple[WorkerAnswer, ...] = ()
    recordings: tuple[PackedFiles, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class PackedFolder:
    """The files of a checkpoint."""

    files: PackedFiles


def encode(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)


def pack_files(folder: Path) -> PackedFiles:
    """Return every file of a folder, and every sub-folder by a name that ends in a slash (it may be empty)."""
    packed: list[tuple[str, bytes]] = []
    for parent, folders, files in os.walk(folder):
        packed += [(f"{Path(parent, name).relative_to(folder)}/", b"") for name in folders]
        packed += [(str(Path(parent, name).relative_to(folder)), Path(parent, name).read_bytes()) for name in files]
    return tuple(sorted(packed))


def unpack_files(files: PackedFiles, folder: Path) -> None:
    """Write the files below ``folder``; raises Fault for a name that leads out of it."""
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
    """Add a checkpoint to the store. Its content is hashed again on arrival; a wrong hash raises Fault."""
    store.root.mkdir(parents=True, exist_ok=True)
    arrived = Path(tempfile.mkdtemp(prefix=ARRIVING, dir=store.root))
    try:
        unpack_files(decode(data, PackedFolder).files, arrived)
        checkpoint = store.snapshot(arrived, is_stored=True)
    finally:
        remove_tree(arrived)
    if checkpoint != expected:
        remove_tree(store.folder(checkpoint))
        raise Fault(f"checkpoint {expected.hash[:16]} arrived as {checkpoint.hash[:16]}")
