"""A seat: one core of one node. An actor that plays what it is sent in a local engine of its own, so that policies are
jailed on the node exactly as they are on the head."""

from __future__ import annotations

import os
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evopolicygym import __version__
from evopolicygym.errors import Fault, IsolationUnavailable, UserError, is_permanent
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.ray import messages
from evopolicygym.execution.ray.messages import (
    CHECKPOINT,
    ENGINE_CONFIG,
    EngineConfig,
    EngineInfo,
    RemoteReply,
    RemoteRequest,
    decode,
    encode,
)
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, Node, WorkerAnswer
from evopolicygym.sandbox.checkpoints import Checkpoint, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.tasks.ids import ids
from evopolicygym.tasks.task import Task

CACHED_ENGINES: Final = 4  # that a seat keeps engines for: runs of several tasks take turns on it
CACHED_CHECKPOINTS: Final = 8  # of a scene that a seat keeps


class RemoteWorker:
    def __init__(self, number: int, node: bytes) -> None:
        """``number`` counts the seats of the node, each with a core of its own."""
        self._number, self._node = number, decode(node, Node)
        self._stages: OrderedDict[str, _CachedEngine] = OrderedDict()

    def ready(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        while self._stages:
            self._stages.popitem()[1].close()

    def do(self, order: bytes, scene: bytes | None = None, parcel: bytes | None = None) -> bytes:
        """Nothing is raised across the border: a fault is a reply."""
        try:
            reply = self._do(decode(order, RemoteRequest), scene, parcel)
        except Exception as error:
            text = str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
            reply = RemoteReply(fault=text, permanent=is_permanent(error))
        return encode(replace(reply, node=self._node))

    def _do(self, order: RemoteRequest, scene: bytes | None, parcel: bytes | None) -> RemoteReply:
        if order.scene not in self._stages:
            if scene is None:
                return RemoteReply(needs=(ENGINE_CONFIG, CHECKPOINT) if order.checkpoint else (ENGINE_CONFIG,))
            try:
                self._add(order.scene, decode(scene, EngineConfig))
            except (UserError, IsolationUnavailable) as error:
                return RemoteReply(refused=str(error))
        self._stages.move_to_end(order.scene)
        return self._stages[order.scene].do(order, parcel)

    def _add(self, key: str, scene: EngineConfig) -> None:
        if (own := bit_id(scene.task)) != scene.bit_id:
            raise UserError(f"the node has another bit_id: {own}, not {scene.bit_id}")
        while len(self._stages) >= CACHED_ENGINES:
            self._stages.popitem(last=False)[1].close()
        self._stages[key] = _CachedEngine(scene, self._number)


class _CachedEngine:
    """The engine of one scene, with the checkpoints that were played last."""

    def __init__(self, scene: EngineConfig, number: int) -> None:
        self._engine = _on_core(number, scene)
        self._known: OrderedDict[str, Checkpoint] = OrderedDict()

    def close(self) -> None:
        self._engine.close()

    def do(self, order: RemoteRequest, parcel: bytes | None) -> RemoteReply:
        if order.checkpoint is None:
            engine = self._engine
            return RemoteReply(
                prepared=EngineInfo(engine.level, engine.implementation, engine.obs_space, engine.action_space)
            )
        if order.checkpoint.hash not in self._known:
            if parcel is None:
                return RemoteReply(needs=(CHECKPOINT,))
            self._keep(order.checkpoint, parcel)
        self._known.move_to_end(order.checkpoint.hash)
        if not order.episodes:
            return RemoteReply(load=self._engine.load(order.checkpoint))
        return self._play(order.episodes)

    def _keep(self, checkpoint: Checkpoint, parcel: bytes) -> None:
        while len(self._known) >= CACHED_CHECKPOINTS:
            remove_tree(self._engine.store.folder(self._known.popitem(last=False)[1]))
        messages.unpack_checkpoint(parcel, checkpoint, self._engine.store)
        self._known[checkpoint.hash] = checkpoint

    def _play(self, episodes: tuple[Episode, ...]) -> RemoteReply:
        """Recordings are made beside the checkpoints, which go whenever the engine goes, however it ends."""
        began, folder = time.perf_counter(), self._engine.store.root / ".recordings"
        try:
            outcomes = {one.number: one for one in self._engine.run(_here(episodes, folder))}
            recordings = tuple(messages.pack_files(folder / str(one.number)) for one in episodes)
        finally:
            remove_tree(folder)
        answers = tuple(_answer(outcomes[one.number]) for one in episodes)
        return RemoteReply(answers=answers, recordings=recordings, seconds=time.perf_counter() - began)


def bit_id(task: Task) -> str:
    """Of this machine and installation, for any splits: a node never learns which are played."""
    return ids(task, "").bit_id


def _on_core(number: int, scene: EngineConfig) -> LocalEngine:
    """An engine takes its cores from the process that starts it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
    try:
        return LocalEngine(scene.task, 1, scene.levels, video=scene.video, stock=scene.stock)
    finally:
        os.sched_setaffinity(0, cores)


def _answer(outcome: EpisodeResult | FaultReport) -> WorkerAnswer:
    if isinstance(outcome, EpisodeResult):
        return WorkerAnswer(result=outcome)
    return WorkerAnswer(fault=outcome.text, permanent=outcome.permanent)


def _here(episodes: tuple[Episode, ...], folder: Path) -> list[Episode]:
    """Recorded on the node first."""
    return [
        replace(one, recording=replace(one.recording, folder=str(folder / str(one.number)))) if one.recording else one
        for one in episodes
    ]


@dataclass(frozen=True)
class NodeRequirements:
    """The tasks that will be played, and the levels of isolation that will do."""

    tasks: tuple[Task, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class NodeReport:
    """``level`` is None where none of those asked for holds, and ``why_not`` says what is missing. ``bit_ids`` are in
    the order of the tasks."""

    version: str
    level: Level | None
    why_not: str
    bit_ids: tuple[str, ...]
    cores: int


def inspect_node(question: bytes) -> bytes:
    """On the node."""
    asked = decode(question, NodeRequirements)
    level, why_not = _best_level(asked.levels)
    cores = len(os.sched_getaffinity(0))
    return encode(NodeReport(__version__, level, why_not, tuple(bit_id(task) for task in asked.tasks), cores))


def reason_to_refuse(question: NodeRequirements, report: NodeReport) -> str:
    """Why the node gets no work; empty when it does. Called on the head, whose own facts are the measure."""
    if report.version != __version__:
        return f"it has evopolicygym {report.version}, the head {__version__}"
    if report.level is None:
        return f"no level of isolation that was asked for holds there: {report.why_not}"
    for task, theirs in zip(question.tasks, report.bit_ids, strict=True):
        if theirs != (ours := bit_id(task)):
            return f"its bit_id of {task.id} is {theirs}, the head's {ours}: returns could differ in their last bits"
    return ""


def _best_level(levels: tuple[Level, ...]) -> tuple[Level | None, str]:
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as stage:
        try:
            zygote = Zygote.best(levels, Path(stage))
        except IsolationUnavailable as error:
            return None, "; ".join(f"{level}: {reason}" for level, reason in error.reasons.items())
        zygote.close()
        return zygote.level, ""
