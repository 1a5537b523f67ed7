"""A remote worker: an actor on one core of one node, and the inspection that decides which nodes get workers.

A worker plays what it is sent in a local engine of its own, so that policies are jailed on the node exactly as they are
on the head.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evopolicygym import __version__
from evopolicygym.errors import IsolationUnavailable, UserError, fault_text, is_permanent
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.messages import WorkerAnswer
from evopolicygym.execution.ray.messages import (
    CHECKPOINT,
    ENGINE_CONFIG,
    EngineConfig,
    EngineInfo,
    RemoteReply,
    RemoteRequest,
    decode,
    encode,
    pack_files,
    unpack_checkpoint,
)
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Node
from evopolicygym.sandbox.checkpoints import Checkpoint, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.tasks.ids import ids
from evopolicygym.tasks.task import Task

CACHED_ENGINES: Final = 4  # per worker: runs of several tasks take turns on it
CACHED_CHECKPOINTS: Final = 8  # per engine


@dataclass(frozen=True)
class NodeRequirements:
    """The tasks that will be played, and the acceptable levels of isolation."""

    tasks: tuple[Task, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class NodeReport:
    """Capabilities of an inspected node. ``level`` is None if it reaches none of the levels asked for, and ``why_not``
    says what is missing. ``bit_ids`` are in the order of the tasks."""

    version: str
    level: Level | None
    why_not: str
    bit_ids: tuple[str, ...]
    cores: int


def inspect_node(requirements: bytes) -> bytes:
    """Return a NodeReport. Runs on the node."""
    required = decode(requirements, NodeRequirements)
    level, why_not = _best_level(required.levels)
    cores = len(os.sched_getaffinity(0))
    return encode(NodeReport(__version__, level, why_not, tuple(bit_id(task) for task in required.tasks), cores))


def reason_to_refuse(requirements: NodeRequirements, report: NodeReport) -> str:
    """Return why the node gets no work; empty if it does. Runs on the head and compares with the head's own facts."""
    if report.version != __version__:
        return f"it has evopolicygym {report.version}, the head {__version__}"
    if report.level is None:
        return f"it reaches no level of isolation that was asked for: {report.why_not}"
    for task, theirs in zip(requirements.tasks, report.bit_ids, strict=True):
        if theirs != (ours := bit_id(task)):
            return f"its bit_id of {task.id} is {theirs}, the head's {ours}: returns could differ in their last bits"
    return ""


def bit_id(task: Task) -> str:
    """Return the bit_id of this machine and installation, for any splits: a node never learns which are played."""
    return ids(task, "").bit_id


class RemoteWorker:
    """The actor. ``number`` counts the workers of a node, each with a core of its own."""

    def __init__(self, number: int, node: bytes) -> None:
        self._number, self._node = number, decode(node, Node)
        self._engines: OrderedDict[str, _CachedEngine] = OrderedDict()

    def ready(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        while self._engines:
            self._engines.popitem()[1].close()

    def do(self, request: bytes, config: bytes | None = None, checkpoint: bytes | None = None) -> bytes:
        """Handle a RemoteRequest. Never raises: a fault is a reply."""
        try:
            reply = self._do(decode(request, RemoteRequest), config, checkpoint)
        except Exception as error:
            reply = RemoteReply(fault=fault_text(error), permanent=is_permanent(error))
        return encode(replace(reply, node=self._node))

    def _do(self, request: RemoteRequest, config: bytes | None, checkpoint: bytes | None) -> RemoteReply:
        if request.config not in self._engines:
            if config is None:
                return RemoteReply(needs=(ENGINE_CONFIG, CHECKPOINT) if request.checkpoint else (ENGINE_CONFIG,))
            try:
                self._start_engine(request.config, decode(config, EngineConfig))
            except (UserError, IsolationUnavailable) as error:
                return RemoteReply(refused=str(error))
        self._engines.move_to_end(request.config)
        return self._engines[request.config].do(request, checkpoint)

    def _start_engine(self, key: str, config: EngineConfig) -> None:
        if (own := bit_id(config.task)) != config.bit_id:
            raise UserError(f"the node has another bit_id: {own}, not {config.bit_id}")
        while len(self._engines) >= CACHED_ENGINES:
            self._engines.popitem(last=False)[1].close()
        self._engines[key] = _CachedEngine(config, self._number)


class _CachedEngine:
    """The engine of one configuration, with the checkpoints that were played last."""

    def __init__(self, config: EngineConfig, number: int) -> None:
        self._engine = _engine_on_core(number, config)
        self._checkpoints: OrderedDict[str, Checkpoint] = OrderedDict()

    def close(self) -> None:
        self._engine.close()

    def do(self, request: RemoteRequest, packed: bytes | None) -> RemoteReply:
        if request.checkpoint is None:
            engine = self._engine
            info = EngineInfo(engine.level, engine.implementation, engine.obs_space, engine.action_space)
            return RemoteReply(engine=info)
        if request.checkpoint.hash not in self._checkpoints:
            if packed is None:
                return RemoteReply(needs=(CHECKPOINT,))
            self._add_checkpoint(request.checkpoint, packed)
        self._checkpoints.move_to_end(request.checkpoint.hash)
        if not request.episodes:
            return RemoteReply(load=self._engine.load(request.checkpoint))
        return self._play(request.episodes)

    def _add_checkpoint(self, checkpoint: Checkpoint, packed: bytes) -> None:
        while len(self._checkpoints) >= CACHED_CHECKPOINTS:
            remove_tree(self._engine.store.folder(self._checkpoints.popitem(last=False)[1]))
        unpack_checkpoint(packed, checkpoint, self._engine.store)
        self._checkpoints[checkpoint.hash] = checkpoint

    def _play(self, episodes: tuple[Episode, ...]) -> RemoteReply:
        """Play the episodes. Recordings are made in the engine's store, which is removed however the engine ends."""
        began, folder = time.perf_counter(), self._engine.store.root / ".recordings"
        try:
            outcomes = {outcome.number: outcome for outcome in self._engine.run(_recorded_in(folder, episodes))}
            recordings = tuple(pack_files(folder / str(episode.number)) for episode in episodes)
        finally:
            remove_tree(folder)
        answers = tuple(_answer(outcomes[episode.number]) for episode in episodes)
        return RemoteReply(answers=answers, recordings=recordings, seconds=time.perf_counter() - began)


def _engine_on_core(number: int, config: EngineConfig) -> LocalEngine:
    """Start an engine on one core: it takes its cores from the process that starts it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
    try:
        return LocalEngine(config.task, 1, config.levels, video=config.video, stock=config.stock)
    finally:
        os.sched_setaffinity(0, cores)


def _answer(outcome: EpisodeResult | FaultReport) -> WorkerAnswer:
    if isinstance(outcome, EpisodeResult):
        return WorkerAnswer(result=outcome)
    return WorkerAnswer(fault=outcome.text, permanent=outcome.permanent)


def _recorded_in(folder: Path, episodes: tuple[Episode, ...]) -> list[Episode]:
    """Return the episodes, recorded below a folder of the node instead of the head's."""
    return [
        replace(episode, recording=replace(episode.recording, folder=str(folder / str(episode.number))))
        if episode.recording
        else episode
        for episode in episodes
    ]


def _best_level(levels: tuple[Level, ...]) -> tuple[Level | None, str]:
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as checkpoints:
        try:
            zygote = Zygote.best(levels, Path(checkpoints))
        except IsolationUnavailable as error:
            return None, "; ".join(f"{level}: {reason}" for level, reason in error.reasons.items())
        zygote.close()
        return zygote.level, ""
