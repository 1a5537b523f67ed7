"""The judge's side: start a program in a cell, wait for it, and end it so that nobody of it is left."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Final, Self

from evopolicygym.agents.confinement import warden
from evopolicygym.agents.confinement.cell import AgentLevel, Cell, Network
from evopolicygym.agents.confinement.gateway import Gateway, Traffic
from evopolicygym.agents.confinement.grants import grant_of
from evopolicygym.agents.confinement.layers import Layers
from evopolicygym.agents.confinement.orders import Orders
from evopolicygym.agents.confinement.ownership import agent_uid, hand_over, passage
from evopolicygym.agents.confinement.program import LAYER
from evopolicygym.agents.confinement.proxy import AllowList
from evopolicygym.agents.confinement.view import View, view_of
from evopolicygym.errors import Fault, UserError
from evopolicygym.sandbox.runtime import runtime

PROXY_PORT: Final = 3128
FLAGS: Final = ("-I", "-S", "-B")
END_S: Final = 40.0
LISTENERS: Final = 64


class LayerFailed(Fault):
    """A layer of the cell did not take; the program was never started."""


def launch(
    argv: Sequence[str],
    cell: Cell,
    level: AgentLevel,
    stdin: int,
    stdout: int,
    stderr: int,
    max_landlock_abi: int | None = None,
) -> AgentProcess:
    """Start ``argv`` in ``cell``. Raises LayerFailed, or UserError if the program cannot be run there."""
    cell.check((runtime().harness, runtime().site))
    with ExitStack() as stack:
        uid = None if level is AgentLevel.NONE else agent_uid(cell.workspace)
        view = view_of(cell)
        if uid is not None:
            _hand_over(cell, uid)
            if level is AgentLevel.B:
                stack.enter_context(passage([*cell.writable, *view.readable(), *_python_parts(cell)], uid))
        network = _Network(cell, level)
        stack.callback(network.close)
        layers = Layers(level, cell.network, uid, cell.processes, None, max_landlock_abi)
        if level is AgentLevel.B:
            grant = grant_of(cell, view, uid is not None, network.reachable)
            layers = Layers(level, cell.network, uid, cell.processes, grant, max_landlock_abi)
        process = _Warden(_orders(argv, cell, view, layers, network), (stdin, stdout, stderr))
        stack.callback(process.end)
        network.open(process.listeners)
        return AgentProcess(level, process, network, stack.pop_all())


class AgentProcess:
    """A program in its cell. When it ends, all that it has started ends with it."""

    def __init__(self, level: AgentLevel, process: _Warden, network: _Network, cleanup: ExitStack) -> None:
        self.level, self._process, self._network, self._cleanup = level, process, network, cleanup

    def wait(self, timeout: float | None = None) -> int | None:
        """The program's exit code (128 + n if signal n ended it), or None if it still runs after ``timeout``."""
        if not self._process.wait(timeout):
            return None
        self._cleanup.close()
        return self._process.exit_code()

    def terminate(self) -> None:
        """Ask the program, and nobody else, to end: SIGTERM."""
        self._process.tell(warden.TERMINATE)

    def kill(self) -> None:
        """Afterwards no process of the agent exists. Raises Fault if that could not be made sure of."""
        self._process.end()
        self._cleanup.close()
        self._process.exit_code()

    def traffic(self) -> tuple[Traffic, ...]:
        """What the proxy let through, and what it refused."""
        return self._network.traffic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class _Network:
    """What the cell can reach. At level A everything is relayed; at B the proxy is on the host's loopback."""

    def __init__(self, cell: Cell, level: AgentLevel) -> None:
        self._allowed = AllowList(cell.hosts, cell.ports)
        self._gateway: Gateway | None = None
        self._own = level is AgentLevel.A and cell.network is not Network.OPEN
        self._proxy: socket.socket | None = None
        proxied = level is not AgentLevel.NONE and cell.network is Network.ALLOWED
        if proxied and not self._own:
            self._proxy = socket.create_server(("127.0.0.1", 0))
        port = self._proxy.getsockname()[1] if self._proxy else _free_port(cell.ports)
        self.proxy = f"http://127.0.0.1:{port}" if proxied else None
        self.reachable = (*cell.ports, *([port] if proxied else []))

    @property
    def relayed(self) -> tuple[int, ...]:
        return self.reachable if self._own else ()

    def open(self, listeners: list[socket.socket]) -> None:
        relays = dict(zip(self.relayed, listeners, strict=True))
        if self._own and self.proxy:
            self._proxy = relays.pop(self.reachable[-1])
        if relays or self._proxy:
            self._gateway = Gateway(relays, self._proxy, self._allowed)

    def traffic(self) -> tuple[Traffic, ...]:
        return self._gateway.traffic() if self._gateway else ()

    def close(self) -> None:
        if self._gateway:
            self._gateway.close()
        elif self._proxy:
            self._proxy.close()


class _Warden:
    """The process that keeps the cell, and what it says."""

    def __init__(self, orders: Orders, streams: tuple[int, int, int]) -> None:
        self._control, theirs = socket.socketpair()
        own = runtime()
        with theirs:
            self._process = subprocess.Popen(
                [own.python, *FLAGS, warden.__file__, own.harness, str(theirs.fileno())],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._lock = threading.Lock()
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
        data, sockets = b"", []
        while not data.endswith(b"\n"):
            try:
                part, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, LISTENERS)
            except ConnectionError:
                part, descriptors = b"", []
            sockets += [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not part:
                break
            data += part
        return (json.loads(data) if data else {}), sockets


def _hand_over(cell: Cell, uid: int) -> None:
    hand_over(cell.workspace, uid, keep="feedback")
    hand_over(cell.home, uid)
    hand_over(cell.temporary, uid)


def _python_parts(cell: Cell) -> tuple[str, ...]:
    return (str(cell.python.folder), cell.python.executable, *cell.python.packages)


def _free_port(taken: tuple[int, ...]) -> int:
    return next(port for port in range(PROXY_PORT, PROXY_PORT + len(taken) + 1) if port not in taken)


def _orders(argv: Sequence[str], cell: Cell, view: View, layers: Layers, network: _Network) -> Orders:
    return Orders(
        argv=tuple(argv),
        environment=cell.full_environment(network.proxy),
        workspace=str(cell.workspace),
        home=str(cell.home),
        temporary=str(cell.temporary),
        writable=cell.writable,
        feedback=os.path.realpath(cell.feedback) if cell.feedback else None,
        view=view,
        ports=network.relayed,
        hidden=(os.path.join(runtime().harness, "evopolicygym", "errors.py"),),
        needed=(*cell.writable, *_python_parts(cell)),
        judge=os.getpid(),
        layers=layers,
    )
