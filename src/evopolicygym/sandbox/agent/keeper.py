"""The judge's end of a warden: starts it, tells it the cell, hears how the program ended."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Any, Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.sandbox.agent import supervisor_main
from evopolicygym.sandbox.agent.orders import LaunchRequest
from evopolicygym.sandbox.agent.program import LAYER
from evopolicygym.sandbox.runtime import runtime

FLAGS: Final = ("-I", "-S", "-B")
END_S: Final = 40.0
LISTENERS: Final = 64


class LayerFailed(Fault):
    """A layer of the cell did not take; the program was never started."""


class Supervisor:
    """The process that keeps the cell, and what it says."""

    def __init__(self, orders: LaunchRequest, streams: tuple[int, int, int]) -> None:
        self._control, theirs = socket.socketpair()
        own = runtime()
        with theirs:
            self._process = subprocess.Popen(
                [own.python, *FLAGS, supervisor_main.__file__, own.harness, str(theirs.fileno())],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._lock, self._heard = threading.Lock(), b""
        self._last: dict[str, Any] | None = None
        with suppress(ConnectionError):  # then it has something to say, or is dead
            orders.send(self._control)
        hello, self.listeners = self._receive()
        if "running" not in hello:
            self.end()
            self._control.close()
            reason = hello.get("refused", "the warden died while starting")
            if hello.get("kind", LAYER) == LAYER:
                raise LayerFailed(f"a layer of the agent's cell did not take: {reason}")
            raise UserError(
                f"{orders.argv[0]} cannot be started in the agent's cell: {reason}",
                f"It sees the system, its workspace and what it is given; PATH is {orders.environment['PATH']}.",
            )

    def wait(self, timeout: float | None) -> bool:
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def tell(self, order: bytes) -> None:
        with suppress(OSError):  # it has ended already
            self._control.send(order)

    def end(self) -> None:
        with suppress(OSError):  # it has ended already
            self._control.shutdown(socket.SHUT_WR)
        if not self.wait(END_S):
            self._process.kill()
            self._process.wait()

    def exit_code(self) -> int:
        """By the warden's last word, which it says when nobody is left."""
        with self._lock:
            if self._last is None:
                self._last = self._receive()[0]
                self._control.close()
        if not self._last.get("alone"):
            raise Fault("processes of the agent may be left over: the warden did not see their end")
        return int(self._last["ended"])

    def _receive(self) -> tuple[dict[str, Any], list[socket.socket]]:
        """One line. The next may come together with it, and is kept."""
        sockets: list[socket.socket] = []
        while b"\n" not in self._heard:
            try:
                part, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, LISTENERS)
            except ConnectionError:
                part, descriptors = b"", []
            sockets += [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not part:
                return {}, sockets
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line), sockets
