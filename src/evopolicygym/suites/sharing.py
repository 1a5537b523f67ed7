"""The run's side of a suite: slots that the foreman grants, and waiting that all runs share."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from evopolicygym.execution.slots import Waitable
from evopolicygym.suites.log import STOPPED
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
        self._say(self._wanted)
        if count == 0:
            while not self._is_noted():
                select.select(self.waitable, [], [])

    def granted(self) -> list[int]:
        return [message.slot for message in self._messages()]

    def give_back(self, slot: int) -> None:
        self._say(GiveBack(slot))

    def _say(self, message: object) -> None:
        try:
            self._connection.sendall(encode(message))
        except ConnectionError:
            _end_like_the_foreman()

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
        except ConnectionError:
            data = b""
        if not data:
            _end_like_the_foreman()
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
            try:
                self._file.write(encode(message))
                self._file.flush()
                line = self._file.readline()
            except ConnectionError:
                line = b""
        if not line:
            _end_like_the_foreman()
        answer: Answer = decode(line)
        return answer


def _end_like_the_foreman() -> NoReturn:
    """It is dead, and we are as good as dead: its sockets close a moment before the kernel ends its children. What goes
    wrong in this moment is nobody's fault, and must not be recorded as one."""
    os._exit(STOPPED)
