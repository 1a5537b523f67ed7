"""The run's side of a suite: slots that the foreman grants, and waiting that all runs share."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from evopolicygym.errors import Fault
from evopolicygym.rollout.slots import Waitable
from evopolicygym.suites.messages import Answer, GiveBack, Gone, Noted, Waiting, Want, decode, encode


class SharedSlots:
    """Leave to play, by the foreman's grace. When we want no more, we wait until the foreman knows: a slot that was on
    its way goes back at once, instead of lying idle until we look again."""

    at_once, first_core = 1, 0

    def __init__(self, connection: socket.socket, total: int) -> None:
        self.total = total
        self.waitable: Sequence[Waitable] = (connection,)
        self._connection, self._unread, self._wanted = connection, b"", Want(0, False)

    def want(self, count: int, urgent: bool) -> None:
        if Want(count, urgent) == self._wanted:
            return
        self._wanted = Want(count, urgent)
        self._connection.sendall(encode(self._wanted))
        if count == 0:
            while not self._is_noted():
                select.select(self.waitable, [], [])

    def granted(self) -> list[int]:
        return [message.slot for message in self._messages()]

    def give_back(self, slot: int) -> None:
        self._connection.sendall(encode(GiveBack(slot)))

    def _is_noted(self) -> bool:
        """The foreman's note comes last: it grants nothing more."""
        for message in self._messages():
            if isinstance(message, Noted):
                return True
            self.give_back(message.slot)
        return False

    def _messages(self) -> Iterator[Any]:
        try:
            data = self._connection.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            raise Fault("the foreman of the suite is gone")
        *lines, self._unread = (self._unread + data).split(b"\n")
        yield from map(decode, lines)


class SharedWaiting:
    """The company of a run in a suite."""

    def __init__(self, connection: socket.socket, provider: str) -> None:
        self._file, self._provider = connection.makefile("rwb"), provider
        self._lock = threading.Lock()

    def wait_s(self, own: float) -> float:
        return max(own, self._ask(Waiting(self._provider, own)).wait_s)

    def agent_is_gone(self) -> None:
        self._ask(Gone())

    def _ask(self, message: object) -> Answer:
        with self._lock:
            self._file.write(encode(message))
            self._file.flush()
            line = self._file.readline()
        if not line:
            raise Fault("the foreman of the suite is gone")
        answer: Answer = decode(line)
        return answer
