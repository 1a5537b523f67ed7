"""The engine's end of one worker process."""

from __future__ import annotations

import socket

from evopolicygym.errors import Fault, IsolationUnavailable, UserError
from evopolicygym.execution import ancestor
from evopolicygym.execution.pipe import receive, send
from evopolicygym.execution.records import Answer, Hello, Request
from evopolicygym.execution.worker import Settings
from evopolicygym.sandbox.policy.launcher import start_clean


class WorkerHandle:
    killed = False

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = socket.socketpair()
        self._process = start_clean(ancestor.__file__, theirs)
        theirs.close()
        send(self._connection, settings)

    def fileno(self) -> int:
        return self._connection.fileno()

    def hello(self) -> Hello:
        hello = receive(self._connection, Hello)
        if hello is None:
            raise Fault("a simulator worker died while starting; its message is above")
        if hello.not_isolated:
            raise IsolationUnavailable(hello.not_isolated, errno=hello.errno)
        if hello.refused:
            raise UserError(hello.refused) from (OSError(hello.errno, hello.refused) if hello.errno else None)
        return hello

    def ask(self, request: Request) -> None:
        try:
            send(self._connection, request)
        except ConnectionError:
            pass  # it is dead; the missing answer says so

    def answer(self) -> Answer | None:
        return receive(self._connection, Answer)

    def kill(self) -> None:
        self._process.kill()
        self.killed = True

    def close(self) -> None:
        """Its zygotes and policies die with it."""
        self._process.kill()
        self._process.wait()
        self._connection.close()
