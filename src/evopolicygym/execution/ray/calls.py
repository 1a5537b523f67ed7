"""Calls of seats that are under way, and a descriptor that can be read as soon as one of them has ended."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Self

from evopolicygym.execution.slots import Waitable

Ended = tuple[int, Any]  # the slot, and what came: a reply, or the exception that is there instead


class Calls:
    def __init__(self) -> None:
        self._ended: SimpleQueue[Ended] = SimpleQueue()
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

    def wait(self, others: Sequence[Waitable], timeout: float | None) -> list[Ended]:
        """What has ended. Returns early, perhaps with nothing, when one of ``others`` can be read."""
        select.select([self._bell, *others], [], [], timeout)
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        ended: list[Ended] = []
        with suppress(Empty):
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def _end(self, slot: int, future: Future[Any]) -> None:
        """In a thread of Ray."""
        self._ended.put((slot, future.exception() or future.result()))
        with suppress(OSError):  # nobody waits any more, or the bell rings already
            self._rope.send(b"!")
