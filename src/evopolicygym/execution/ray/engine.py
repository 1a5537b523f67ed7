"""The engine of a Ray cluster: episodes go to remote workers in batches, results are those of the local engine."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from evopolicygym.errors import Fault
from evopolicygym.execution.engine import MISSING_POLICY, PUBLISHABLE, outcome_of
from evopolicygym.execution.ray.cluster import ClusterInfo, ClusterSlots, RayCluster
from evopolicygym.execution.ray.connection import connect_once
from evopolicygym.execution.ray.dispatch import Batch, BatchQueue, Dispatch, FinishedBatch, RemoteWorkers
from evopolicygym.execution.ray.messages import EngineConfig, EngineInfo, PackedFiles, unpack_files
from evopolicygym.execution.ray.remote_worker import bit_id
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, LoadResult, Node
from evopolicygym.execution.slots import Slots
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.task import Task


class RayEngine:
    """Plays on the workers of a cluster, which this or another process has opened."""

    def __init__(
        self,
        task: Task,
        cluster: ClusterInfo,
        slots: Slots,
        levels: tuple[Level, ...] = PUBLISHABLE,
        store: Path | None = None,
        video: bool = False,
        stock: bool = False,
    ) -> None:
        self._slots, self._scratch = slots, None if store else _new_scratch_folder()
        self.store = CheckpointStore((store or self._scratch or Path()).absolute())
        config = EngineConfig(task, levels, video, stock, bit_id(task))
        ray = connect_once(cluster.address, cluster.namespace, cluster.token_file)
        self._workers = RemoteWorkers(ray, cluster.namespace, config, self.store.root)
        self._nodes = {node.id: node for node in cluster.nodes}
        self._on_join: Callable[[Node], None] = lambda _: None
        try:
            info = self._start_first()
        except BaseException:
            self.close()
            raise
        self.implementation = info.implementation
        self.obs_space, self.action_space = info.obs_space, info.action_space

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes that play or have played, and nodes that were refused."""
        return tuple(self._nodes.values())

    @property
    def level(self) -> Level:
        """The lowest level of all nodes that play."""
        return max((Level(node.level) for node in self.nodes if not node.refused), key=list(Level).index)

    def watch(self, on_join: Callable[[Node], None]) -> None:
        self._on_join = on_join

    def load(self, checkpoint: Checkpoint) -> LoadResult:
        """Import and construct the policy in the jail, without an environment."""
        if not checkpoint.has_policy:
            return MISSING_POLICY
        ((_, reply),) = self._dispatch(BatchQueue(first=[Batch(checkpoint)]))
        if reply.load is None:
            raise Fault(reply.fault, reply.permanent)
        return reply.load

    def run(
        self, episodes: Iterable[Episode], deadline: float | None = None, background: bool = False
    ) -> Iterator[EpisodeResult | FaultReport]:
        """Yield results as they arrive, a batch at a time."""
        for batch, reply in self._dispatch(BatchQueue(episodes), deadline, not background):
            if reply.fault:
                for episode in batch.episodes:
                    yield FaultReport(episode.number, episode.case, reply.fault, reply.permanent)
                continue
            for episode, answer, files in zip(batch.episodes, reply.answers, reply.recordings, strict=True):
                _write_recording(episode, files)
                yield outcome_of(episode, answer)

    def close(self) -> None:
        if self._scratch:
            remove_tree(self._scratch)

    def _start_first(self) -> EngineInfo:
        """Start the engine of one worker, to learn the spaces and that the task can be played."""
        ((_, reply),) = self._dispatch(BatchQueue(first=[Batch()]))
        if reply.engine is None:
            raise Fault(f"no node can play: {reply.fault}")
        return reply.engine

    def _dispatch(
        self, batches: BatchQueue, deadline: float | None = None, urgent: bool = True
    ) -> Iterator[FinishedBatch]:
        for batch, reply in Dispatch(self._workers, self._slots, batches, deadline, urgent).replies():
            if reply.node and reply.node.id not in self._nodes:
                self._nodes[reply.node.id] = reply.node
                self._on_join(reply.node)
            yield batch, reply


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
    """Open a cluster for one engine alone: all cores of the cluster at ``address``, or ``jobs`` cores of a Ray that is
    started on this machine."""
    with RayCluster([task], levels, address, None if address else jobs) as cluster:
        folder = store or (cluster.scratch and cluster.scratch / "checkpoints")
        with RayEngine(task, cluster.info, ClusterSlots(cluster), levels, folder, video, stock) as engine:
            yield engine


def _new_scratch_folder() -> Path:
    return Path(tempfile.gettempdir(), f"evopolicygym-{secrets.token_hex(8)}")


def _write_recording(episode: Episode, files: PackedFiles) -> None:
    if episode.recording and files:
        folder = Path(episode.recording.folder)
        folder.mkdir(parents=True, exist_ok=True)
        unpack_files(files, folder)
