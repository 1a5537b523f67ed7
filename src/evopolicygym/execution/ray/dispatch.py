"""Sends episodes to remote workers in batches, and repeats elsewhere what is lost with a worker.

No result is given twice: a call either returned its results or is repeated whole.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from evopolicygym.errors import Fault
from evopolicygym.execution.engine import OutOfTime
from evopolicygym.execution.ray.cluster import worker_name
from evopolicygym.execution.ray.messages import (
    CHECKPOINT,
    ENGINE_CONFIG,
    EngineConfig,
    RemoteReply,
    RemoteRequest,
    decode,
    encode,
    pack_checkpoint,
)
from evopolicygym.execution.records import Episode
from evopolicygym.execution.slots import Slots, Waitable
from evopolicygym.sandbox.checkpoints import Checkpoint

CALL_S: Final = 0.3  # of play in one call: enough that calls cost little
SHARES: Final = 2  # calls per worker that the remaining episodes are divided into, so that no worker idles at the end
SENT_CHECKPOINTS: Final = 4  # kept in Ray's object store, from which all nodes fetch them
LOSSES: Final = 3  # of one episode with its worker: never blamed on the policy, but then a fault of the judge

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Work of one call: play episodes of a checkpoint, load it, or neither. ``losses`` counts the calls that were
    lost with their worker."""

    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()
    losses: int = 0

    def split_for_retry(self) -> list[Batch]:
        """Return a batch for each episode: if one of them brings workers down, the others are not blamed for it."""
        lost = replace(self, losses=self.losses + 1)
        return [replace(lost, episodes=(episode,)) for episode in self.episodes] or [lost]


class BatchQueue:
    """Cuts a stream of episodes into batches. Until the first call has returned, they hold one episode each."""

    def __init__(self, episodes: Iterable[Episode] = (), first: Iterable[Batch] = ()) -> None:
        self._source, self._ahead, self._first = iter(episodes), deque[Episode](), deque(first)
        self._is_dry, self._episode_s = episodes == (), CALL_S

    @property
    def is_empty(self) -> bool:
        """Whether the queue is known to be empty. No episode is drawn to find out."""
        return self._is_dry and not self._ahead and not self._first

    def next(self, workers: int) -> Batch | None:
        if self._first:
            return self._first.popleft()
        most = max(1, int(CALL_S / self._episode_s))
        self._look_ahead(most * workers * SHARES)
        return self._cut(min(most, ceil(len(self._ahead) / (workers * SHARES)))) if self._ahead else None

    def put_first(self, batches: Iterable[Batch]) -> None:
        """Add batches that come before all others."""
        self._first.extend(batches)

    def learn(self, episodes: int, seconds: float) -> None:
        """Set the duration of an episode by what a call took."""
        self._episode_s = max(seconds / episodes, 1e-4) if episodes else self._episode_s

    def _cut(self, size: int) -> Batch:
        checkpoint, taken = self._ahead[0].checkpoint, list[Episode]()
        while self._ahead and len(taken) < size and self._ahead[0].checkpoint == checkpoint:
            taken.append(self._ahead.popleft())
        return Batch(checkpoint, tuple(taken))

    def _look_ahead(self, count: int) -> None:
        while not self._is_dry and len(self._ahead) < count:
            episode = next(self._source, None)
            self._is_dry = episode is None
            if episode is not None:
                self._ahead.append(episode)


class WorkerGone(Exception):
    """The remote worker has ended and will not be started again."""


class RemoteWorkers:
    """The workers of a cluster, found by name, for one engine configuration."""

    def __init__(self, ray: Any, namespace: str, config: EngineConfig, checkpoints: Path) -> None:
        self._ray, self._namespace, self._config, self._checkpoints = ray, namespace, config, checkpoints
        self._actors: dict[int, Any] = {}
        self._sent: OrderedDict[str, Any] = OrderedDict()

    def call(self, slot: int, batch: Batch, needs: tuple[str, ...] = ()) -> Any:
        """Start a call. ``needs`` is what the worker asked for in an earlier reply; most have it already."""
        request = encode(RemoteRequest(self._config.key, batch.checkpoint, batch.episodes))
        config = encode(self._config) if ENGINE_CONFIG in needs else None
        checkpoint = self._packed(batch.checkpoint) if CHECKPOINT in needs and batch.checkpoint else None
        return self._actor(slot).do.remote(request, config, checkpoint)

    def recovered(self, slot: int) -> Any:
        """Start a call that ends when Ray has started the worker again, or has given it up."""
        return self._actor(slot).ready.options(max_task_retries=-1).remote()

    def stop(self, slot: int) -> None:
        """Break off what a worker plays. Ray starts it again."""
        try:
            self._ray.kill(self._actor(slot), no_restart=False)
        except WorkerGone:
            pass

    def _actor(self, slot: int) -> Any:
        if slot not in self._actors:
            try:
                self._actors[slot] = self._ray.get_actor(worker_name(slot), self._namespace)
            except ValueError as error:
                raise WorkerGone(f"worker {slot} is gone") from error
        return self._actors[slot]

    def _packed(self, checkpoint: Checkpoint) -> Any:
        if checkpoint.hash not in self._sent:
            while len(self._sent) >= SENT_CHECKPOINTS:
                self._sent.popitem(last=False)
            packed = pack_checkpoint(self._checkpoints / checkpoint.hash)
            self._sent[checkpoint.hash] = self._ray.put(packed)
        return self._sent[checkpoint.hash]


FinishedCall = tuple[int, Any]  # the slot, and its reply or the exception instead of one
FinishedBatch = tuple[Batch, RemoteReply]


class PendingCalls:
    """Calls that are under way, with a descriptor that becomes readable when one of them has ended."""

    def __init__(self) -> None:
        self._finished: SimpleQueue[FinishedCall] = SimpleQueue()
        self._readable, self._wake = socket.socketpair()
        self._readable.setblocking(False)
        self._wake.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._readable.close()
        self._wake.close()

    def start(self, slot: int, reference: Any) -> None:
        reference.future().add_done_callback(lambda future: self._finish(slot, future))

    def wait(self, others: Sequence[Waitable], timeout: float | None) -> list[FinishedCall]:
        """Return finished calls. Returns early, perhaps with none, when one of ``others`` becomes readable."""
        select.select([self._readable, *others], [], [], timeout)
        with suppress(BlockingIOError):
            self._readable.recv(4096)
        finished: list[FinishedCall] = []
        with suppress(Empty):
            while True:
                finished.append(self._finished.get_nowait())
        return finished

    def _finish(self, slot: int, future: Future[Any]) -> None:
        """Called in a thread of Ray."""
        self._finished.put((slot, future.exception() or future.result()))
        with suppress(OSError):  # closed, or already readable
            self._wake.send(b"!")


class Dispatch:
    """One stream of batches over the slots that are granted. A slot is a worker."""

    def __init__(
        self, workers: RemoteWorkers, slots: Slots, batches: BatchQueue, deadline: float | None, urgent: bool
    ) -> None:
        self._workers, self._slots, self._batches = workers, slots, batches
        self._deadline, self._urgent = deadline, urgent
        self._busy: dict[int, Batch] = {}
        self._recovering: set[int] = set()
        self._gone: set[int] = set()  # held to the end, so that they are not granted to other runs
        self._why_gone = "none was granted"

    def replies(self) -> Iterator[FinishedBatch]:
        with PendingCalls() as self._calls:
            try:
                while self._assign_work():
                    for slot, result in self._wait():
                        yield from self._handle(slot, result)
            finally:
                self._release()

    def _assign_work(self) -> bool:
        """Give every granted slot a batch. Returns False when there are no batches left, waiting or under way."""
        self._slots.want(0 if self._batches.is_empty else self._slots.total + len(self._gone), self._urgent)
        for slot in self._slots.granted():
            if batch := self._batches.next(self._slots.total):
                self._start(slot, batch)
            else:
                self._slots.give_back(slot)
        return bool(self._busy) or not self._batches.is_empty

    def _start(self, slot: int, batch: Batch, needs: tuple[str, ...] = ()) -> None:
        try:
            self._calls.start(slot, self._workers.call(slot, batch, needs))
            self._busy[slot] = batch
        except WorkerGone as error:
            self._lose(slot, str(error))
            self._batches.put_first([batch])

    def _wait(self) -> list[FinishedCall]:
        if not (self._busy or self._recovering or self._slots.waitable):
            raise Fault(f"the cluster has no worker left: {self._why_gone}")
        began, is_idle = time.monotonic(), not self._busy
        timeout = None if self._deadline is None or is_idle else max(0.0, self._deadline - began)
        finished = self._calls.wait(self._slots.waitable, timeout)
        if self._deadline is not None and is_idle:
            self._deadline += time.monotonic() - began  # other runs held all slots: that time does not count
        elif self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime
        return finished

    def _handle(self, slot: int, result: Any) -> Iterator[FinishedBatch]:
        if slot in self._recovering:
            self._recovering.remove(slot)
            self._lose(slot, str(result)) if isinstance(result, Exception) else self._slots.give_back(slot)
            return
        batch = self._busy.pop(slot)
        if isinstance(result, Exception):
            yield from self._worker_lost(slot, batch, result)
            return
        reply = decode(result, RemoteReply)
        if reply.needs:
            self._start(slot, batch, reply.needs)
        elif reply.refused:
            self._lose(slot, reply.refused)
            self._batches.put_first([batch])
        else:
            self._slots.give_back(slot)
            self._batches.learn(len(batch.episodes), reply.seconds)
            yield from self._retry(batch, reply) if reply.fault else [(batch, reply)]

    def _worker_lost(self, slot: int, batch: Batch, why: Exception) -> Iterator[FinishedBatch]:
        log.warning("worker %d was lost with %d episodes: %s", slot, len(batch.episodes), why)
        try:
            self._calls.start(slot, self._workers.recovered(slot))
            self._recovering.add(slot)
        except WorkerGone as error:
            self._lose(slot, str(error))
        yield from self._retry(batch, RemoteReply(fault=f"the worker was lost each of {LOSSES} times: {why}"))

    def _retry(self, batch: Batch, failed: RemoteReply) -> Iterator[FinishedBatch]:
        for part in batch.split_for_retry():
            if part.losses < LOSSES:
                self._batches.put_first([part])
            else:
                yield part, RemoteReply(fault=failed.fault, permanent=failed.permanent)

    def _lose(self, slot: int, why: str) -> None:
        log.warning("worker %d plays no more: %s", slot, why)
        self._gone.add(slot)
        self._why_gone = why

    def _release(self) -> None:
        self._slots.want(0, urgent=False)
        for slot in self._busy:  # broken off: their results are no longer wanted
            self._workers.stop(slot)
        for slot in (*self._busy, *self._recovering, *self._gone):
            self._slots.give_back(slot)
