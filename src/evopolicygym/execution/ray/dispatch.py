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
from evopolicygym.execution.ray import messages
from evopolicygym.execution.ray.cluster import worker_name
from evopolicygym.execution.ray.messages import (
    CHECKPOINT,
    ENGINE_CONFIG,
    EngineConfig,
    RemoteReply,
    RemoteRequest,
    decode,
    encode,
)
from evopolicygym.execution.records import Episode
from evopolicygym.execution.slots import Slots, Waitable
from evopolicygym.sandbox.checkpoints import Checkpoint

CALL_S: Final = 0.3  # of play in one call
SHARES: Final = 2  # calls for each seat that what is left is divided into


@dataclass(frozen=True)
class Batch:
    """What one call does: play episodes of a checkpoint, load it, or neither. ``losses`` counts the calls that were
    lost with their seat."""

    checkpoint: Checkpoint | None = None
    episodes: tuple[Episode, ...] = ()
    losses: int = 0

    def again(self) -> list[Batch]:
        """Each episode by itself: should one of them be what takes seats down, the others are not blamed for it."""
        lost = replace(self, losses=self.losses + 1)
        return [replace(lost, episodes=(episode,)) for episode in self.episodes] or [lost]


class BatchQueue:
    """Cuts a stream of episodes as it goes. Until a call has told how long episodes take, they go one by one."""

    def __init__(self, episodes: Iterable[Episode] = (), first: Iterable[Batch] = ()) -> None:
        self._source, self._ahead, self._first = iter(episodes), deque[Episode](), deque(first)
        self._is_dry, self._episode_s = episodes == (), CALL_S

    @property
    def is_empty(self) -> bool:
        """Known to be: as long as nobody asks, no episode is drawn."""
        return self._is_dry and not self._ahead and not self._first

    def next(self, seats: int) -> Batch | None:
        if self._first:
            return self._first.popleft()
        most = max(1, int(CALL_S / self._episode_s))
        self._look_ahead(most * seats * SHARES)
        return self._cut(min(most, ceil(len(self._ahead) / (seats * SHARES)))) if self._ahead else None

    def back(self, batches: Iterable[Batch]) -> None:
        """To be done before all others."""
        self._first.extend(batches)

    def learn(self, episodes: int, seconds: float) -> None:
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


SENT_CHECKPOINTS: Final = 4  # kept in the object store: one is enough for most, and all nodes fetch it from there


class WorkerGone(Exception):
    """It ended for good."""


class RemoteWorkers:
    def __init__(self, ray: Any, namespace: str, scene: EngineConfig, checkpoints: Path) -> None:
        self._ray, self._namespace, self._scene, self._checkpoints = ray, namespace, scene, checkpoints
        self._found: dict[int, Any] = {}
        self._parcels: OrderedDict[str, Any] = OrderedDict()

    def ask(self, slot: int, batch: Batch, needs: tuple[str, ...] = ()) -> Any:
        """What seats need they say: most have it already."""
        order = encode(RemoteRequest(self._scene.key, batch.checkpoint, batch.episodes))
        scene = encode(self._scene) if ENGINE_CONFIG in needs else None
        parcel = self._parcel(batch.checkpoint) if CHECKPOINT in needs and batch.checkpoint else None
        return self._seat(slot).do.remote(order, scene, parcel)

    def recovered(self, slot: int) -> Any:
        """Ends when the seat has been started again by Ray, or is known to be gone."""
        return self._seat(slot).ready.options(max_task_retries=-1).remote()

    def stop(self, slot: int) -> None:
        """What it plays is for nobody. Ray starts it again."""
        try:
            self._ray.kill(self._seat(slot), no_restart=False)
        except WorkerGone:
            pass

    def _seat(self, slot: int) -> Any:
        if slot not in self._found:
            try:
                self._found[slot] = self._ray.get_actor(worker_name(slot), self._namespace)
            except ValueError as error:
                raise WorkerGone(f"seat {slot} is gone") from error
        return self._found[slot]

    def _parcel(self, checkpoint: Checkpoint) -> Any:
        if checkpoint.hash not in self._parcels:
            while len(self._parcels) >= SENT_CHECKPOINTS:
                self._parcels.popitem(last=False)
            parcel = messages.pack_checkpoint(self._checkpoints / checkpoint.hash)
            self._parcels[checkpoint.hash] = self._ray.put(parcel)
        return self._parcels[checkpoint.hash]


FinishedCall = tuple[int, Any]  # the slot, and what came: a reply, or the exception that is there instead


class PendingCalls:
    def __init__(self) -> None:
        self._ended: SimpleQueue[FinishedCall] = SimpleQueue()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bell.close()
        self._rope.close()

    def start(self, slot: int, reference: Any) -> None:
        reference.future().add_done_callback(lambda future: self._end(slot, future))

    def wait(self, others: Sequence[Waitable], timeout: float | None) -> list[FinishedCall]:
        """What has ended. Returns early, perhaps with nothing, when one of ``others`` can be read."""
        select.select([self._bell, *others], [], [], timeout)
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        ended: list[FinishedCall] = []
        with suppress(Empty):
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def _end(self, slot: int, future: Future[Any]) -> None:
        """In a thread of Ray."""
        self._ended.put((slot, future.exception() or future.result()))
        with suppress(OSError):  # nobody waits any more, or the bell rings already
            self._rope.send(b"!")


LOSSES: Final = 3  # of one episode with its seat: never the policy's doing, but at some point a fault of the judge
log = logging.getLogger(__name__)
Done = tuple[Batch, RemoteReply]


class Dispatch:
    def __init__(
        self, seats: RemoteWorkers, slots: Slots, batches: BatchQueue, deadline: float | None, urgent: bool
    ) -> None:
        self._seats, self._slots, self._batches = seats, slots, batches
        self._deadline, self._urgent = deadline, urgent
        self._busy: dict[int, Batch] = {}
        self._recovering: set[int] = set()
        self._gone: set[int] = set()  # held to the end, so that nobody is granted them again
        self._why_gone = "none was granted"

    def replies(self) -> Iterator[Done]:
        with PendingCalls() as self._calls:
            try:
                while self._go_on():
                    for slot, what in self._wait():
                        yield from self._settle(slot, what)
            finally:
                self._let_go()

    def _go_on(self) -> bool:
        """Give every slot work. False when there is none, and none under way."""
        self._slots.want(0 if self._batches.is_empty else self._slots.total + len(self._gone), self._urgent)
        for slot in self._slots.granted():
            if batch := self._batches.next(self._slots.total):
                self._ask(slot, batch)
            else:
                self._slots.give_back(slot)
        return bool(self._busy) or not self._batches.is_empty

    def _ask(self, slot: int, batch: Batch, needs: tuple[str, ...] = ()) -> None:
        try:
            self._calls.start(slot, self._seats.ask(slot, batch, needs))
            self._busy[slot] = batch
        except WorkerGone as error:
            self._lose(slot, str(error))
            self._batches.back([batch])

    def _wait(self) -> list[FinishedCall]:
        if not (self._busy or self._recovering or self._slots.waitable):
            raise Fault(f"no seat of the cluster is left: {self._why_gone}")
        began, is_idle = time.monotonic(), not self._busy
        patience = None if self._deadline is None or is_idle else max(0.0, self._deadline - began)
        ended = self._calls.wait(self._slots.waitable, patience)
        if self._deadline is not None and is_idle:
            self._deadline += time.monotonic() - began  # others had all the slots: that is not its time
        elif self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime
        return ended

    def _settle(self, slot: int, what: Any) -> Iterator[Done]:
        if slot in self._recovering:
            self._recovering.remove(slot)
            self._lose(slot, str(what)) if isinstance(what, Exception) else self._slots.give_back(slot)
            return
        batch = self._busy.pop(slot)
        if isinstance(what, Exception):
            yield from self._seat_lost(slot, batch, what)
            return
        reply = decode(what, RemoteReply)
        if reply.needs:
            self._ask(slot, batch, reply.needs)
        elif reply.refused:
            self._lose(slot, reply.refused)
            self._batches.back([batch])
        else:
            self._slots.give_back(slot)
            self._batches.learn(len(batch.episodes), reply.seconds)
            yield from self._again(batch, reply) if reply.fault else [(batch, reply)]

    def _seat_lost(self, slot: int, batch: Batch, why: Exception) -> Iterator[Done]:
        log.warning("seat %d was lost with %d episodes: %s", slot, len(batch.episodes), why)
        try:
            self._calls.start(slot, self._seats.recovered(slot))
            self._recovering.add(slot)
        except WorkerGone as error:
            self._lose(slot, str(error))
        yield from self._again(batch, RemoteReply(fault=f"the seat was lost each of {LOSSES} times: {why}"))

    def _again(self, batch: Batch, failed: RemoteReply) -> Iterator[Done]:
        for one in batch.again():
            if one.losses < LOSSES:
                self._batches.back([one])
            else:
                yield one, RemoteReply(fault=failed.fault, permanent=failed.permanent)

    def _lose(self, slot: int, why: str) -> None:
        log.warning("seat %d plays no more: %s", slot, why)
        self._gone.add(slot)
        self._why_gone = why

    def _let_go(self) -> None:
        self._slots.want(0, urgent=False)
        for slot in self._busy:  # broken off: what they would answer is for nobody
            self._seats.stop(slot)
        for slot in (*self._busy, *self._recovering, *self._gone):
            self._slots.give_back(slot)
