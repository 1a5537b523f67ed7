"""The engine of a cluster: episodes go to seats in batches, results come back as if they had been played here."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from evopolicygym.errors import Fault
from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.execution.ray import messages
from evopolicygym.execution.ray.cluster import ClusterInfo, ClusterSlots, RayCluster
from evopolicygym.execution.ray.connection import connect_once
from evopolicygym.execution.ray.dispatch import Batch, BatchQueue, Dispatch, Done, RemoteWorkers
from evopolicygym.execution.ray.messages import EngineConfig, EngineInfo, PackedFiles
from evopolicygym.execution.ray.remote_worker import bit_id
from evopolicygym.execution.records import (
    Episode,
    EpisodeError,
    EpisodeResult,
    FaultReport,
    LoadResult,
    Node,
    WorkerAnswer,
)
from evopolicygym.execution.slots import Slots
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.policy.failures import ErrorKind
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task


class RayEngine:
    """Plays on the seats of a fleet, which this or another process has made."""

    def __init__(
        self,
        task: Task,
        where: ClusterInfo,
        slots: Slots,
        levels: tuple[Level, ...] = PUBLISHABLE,
        store: Path | None = None,
        video: bool = False,
        stock: bool = False,
    ) -> None:
        self._slots, self._scratch = slots, None if store else _scratch()
        self.store = CheckpointStore((store or self._scratch or Path()).absolute())
        scene = EngineConfig(task, levels, video, stock, bit_id(task))
        self._seats = RemoteWorkers(
            connect_once(where.address, where.namespace, where.token_file), where.namespace, scene, self.store.root
        )
        self._nodes = {node.id: node for node in where.nodes}
        self._notice: Callable[[Node], None] = lambda _: None
        try:
            prepared = self._prepare()
        except BaseException:
            self.close()
            raise
        self.implementation = prepared.implementation
        self.obs_space, self.action_space = prepared.obs_space, prepared.action_space

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those that play or have played, and those that may not."""
        return tuple(self._nodes.values())

    @property
    def level(self) -> Level:
        """The lowest of all nodes that play."""
        return max((Level(node.level) for node in self.nodes if not node.refused), key=list(Level).index)

    def watch(self, notice: Callable[[Node], None]) -> None:
        self._notice = notice

    def load(self, checkpoint: Checkpoint) -> LoadResult:
        """Whether the policy imports and constructs, in the jail, without an environment."""
        if not checkpoint.has_policy:
            return LoadResult(EpisodeError(ErrorKind.MISSING_POLICY, "the folder holds no file policy.py"))
        ((_, reply),) = self._dispatch(BatchQueue(first=[Batch(checkpoint)]))
        if reply.load is None:
            raise Fault(reply.fault, reply.permanent)
        return reply.load

    def run(
        self, episodes: Iterable[Episode], deadline: float | None = None, background: bool = False
    ) -> Iterator[EpisodeResult | FaultReport]:
        """Results as they come, a batch at a time."""
        for batch, reply in self._dispatch(BatchQueue(episodes), deadline, not background):
            if reply.fault:
                for one in batch.episodes:
                    yield FaultReport(one.number, one.case, reply.fault, reply.permanent)
                continue
            for episode, answer, files in zip(batch.episodes, reply.answers, reply.recordings, strict=True):
                _write(episode, files)
                yield _outcome(episode, answer)

    def close(self) -> None:
        if self._scratch:
            remove_tree(self._scratch)

    def _prepare(self) -> EngineInfo:
        ((_, reply),) = self._dispatch(BatchQueue(first=[Batch()]))
        if reply.prepared is None:
            raise Fault(f"no node can play: {reply.fault}")
        return reply.prepared

    def _dispatch(self, batches: BatchQueue, deadline: float | None = None, urgent: bool = True) -> Iterator[Done]:
        for batch, reply in Dispatch(self._seats, self._slots, batches, deadline, urgent).replies():
            if reply.node and reply.node.id not in self._nodes:
                self._nodes[reply.node.id] = reply.node
                self._notice(reply.node)
            yield batch, reply


def _scratch() -> Path:
    return Path(tempfile.gettempdir(), f"evopolicygym-{secrets.token_hex(8)}")


def _write(episode: Episode, files: PackedFiles) -> None:
    if episode.recording and files:
        folder = Path(episode.recording.folder)
        folder.mkdir(parents=True, exist_ok=True)
        messages.unpack_files(files, folder)


def _outcome(episode: Episode, answer: WorkerAnswer) -> EpisodeResult | FaultReport:
    if answer.result is None:
        text = answer.fault or "the worker gave no result"
        return FaultReport(episode.number, episode.case, text, answer.permanent)
    return answer.result


@contextmanager
def ray_engine(
    task: Task,
    jobs: int,
    address: str | None = None,
    levels: tuple[Level, ...] = PUBLISHABLE,
    store: Path | None = None,
    video: bool = False,
    stock: bool = False,
) -> Iterator[RayEngine]:
    """On every core of the cluster at ``address``; without one, on ``jobs`` cores of a Ray on this machine."""
    with RayCluster([task], levels, address, None if address else jobs) as fleet:
        place = store or (fleet.scratch and fleet.scratch / "checkpoints")
        with RayEngine(task, fleet.whereabouts, ClusterSlots(fleet), levels, place, video, stock) as engine:
            yield engine
