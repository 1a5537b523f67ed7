"""The run's side of a suite: slots that the foreman grants, and waiting that all runs share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

from evopolicygym.errors import Fault
from evopolicygym.rollout.slots import Waitable
from evopolicygym.suites.messages import Answer, GiveBack, Gone, Granted, Waiting, Want, decode, encode


class SharedSlots:
    """Leave to play, by the foreman's grace. Wishes are stated as they are now, with what is held, so that none is ever
    stale: a grant that crosses a newer wish on its way is void on both sides, read or not."""

    at_once, first_core = 1, 0

    def __init__(self, connection: socket.socket, total: int) -> None:
        self.total = total
        self.waitable: Sequence[Waitable] = (connection,)
        self._connection, self._unread = connection, b""
        self._wanted, self._held = Want(0, 0, False, []), set[int]()

    def want(self, count: int, urgent: bool) -> None:
        if (count, urgent) != (self._wanted.count, self._wanted.urgent):
            self._wanted = Want(self._wanted.number + 1, count, urgent, sorted(self._held))
            self._connection.sendall(encode(self._wanted))

    def granted(self) -> list[int]:
        messages: list[Granted] = [decode(line) for line in self._lines()]
        slots = [message.slot for message in messages if message.wish == self._wanted.number]
        self._held.update(slots)
        return slots

    def give_back(self, slot: int) -> None:
        self._held.discard(slot)
        self._connection.sendall(encode(GiveBack(slot)))

    def _lines(self) -> list[bytes]:
        while True:
            try:
                data = self._connection.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not data:
                raise Fault("the foreman of the suite is gone")
            self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        return lines


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
