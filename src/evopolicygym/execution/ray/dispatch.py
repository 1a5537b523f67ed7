"""One stream of batches, over whatever slots are granted. Seats may be lost on the way: what they played is played
again elsewhere, and no result is given twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from evopolicygym.errors import Fault
from evopolicygym.execution.engine import OutOfTime
from evopolicygym.execution.ray.batches import Batch, Batches
from evopolicygym.execution.ray.calls import Calls, Ended
from evopolicygym.execution.ray.messages import Reply, decode
from evopolicygym.execution.ray.seats import SeatGone, Seats
from evopolicygym.execution.slots import Slots

LOSSES: Final = 3  # of one episode with its seat: never the policy's doing, but at some point a fault of the judge
log = logging.getLogger(__name__)
Done = tuple[Batch, Reply]


class Dispatch:
    def __init__(self, seats: Seats, slots: Slots, batches: Batches, deadline: float | None, urgent: bool) -> None:
        self._seats, self._slots, self._batches = seats, slots, batches
        self._deadline, self._urgent = deadline, urgent
        self._busy: dict[int, Batch] = {}
        self._recovering: set[int] = set()
        self._gone: set[int] = set()  # held to the end, so that nobody is granted them again
        self._why_gone = "none was granted"

    def replies(self) -> Iterator[Done]:
        with Calls() as self._calls:
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
        except SeatGone as error:
            self._lose(slot, str(error))
            self._batches.back([batch])

    def _wait(self) -> list[Ended]:
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
        reply = decode(what, Reply)
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
        except SeatGone as error:
            self._lose(slot, str(error))
        yield from self._again(batch, Reply(fault=f"the seat was lost each of {LOSSES} times: {why}"))

    def _again(self, batch: Batch, failed: Reply) -> Iterator[Done]:
        for one in batch.again():
            if one.losses < LOSSES:
                self._batches.back([one])
            else:
                yield one, Reply(fault=failed.fault, permanent=failed.permanent)

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
