"""What the head and a seat tell each other: typed records as bytes, so that nothing else is ever unpickled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from evopolicygym.execution.records import Episode, LoadResult, Node, WorkerAnswer
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task

T = TypeVar("T")
Files = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Scene:
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
class Order:
    """To a seat: play the episodes; without any, load the checkpoint; without one, only prepare the scene."""

    scene: str
    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A seat's engine, as it is once it has started."""

    level: Level
    implementation: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """From a seat. ``needs`` names what it must be sent first; ``refused`` says why it does not play at all;
    ``answers`` and ``recordings`` are in the order of the episodes."""

    node: Node | None = None
    needs: tuple[str, ...] = ()
    refused: str = ""
    fault: str = ""
    permanent: bool = False
    prepared: Prepared | None = None
    load: LoadResult | None = None
    answers: tuple[WorkerAnswer, ...] = ()
    recordings: tuple[Files, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Parcel:
    """The files of a checkpoint."""

    files: Files


SCENE, CHECKPOINT = "scene", "checkpoint"


def encode(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)
