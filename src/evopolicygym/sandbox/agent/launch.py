"""The judge's side: start a program in a sandbox, wait for it, and end it together with everything it started."""

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

from evopolicygym.errors import Fault, UserError
from evopolicygym.sandbox.agent import supervisor_main
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox
from evopolicygym.sandbox.agent.agent_user import agent_uid, hand_over
from evopolicygym.sandbox.agent.network import AgentNetwork, ProxyTraffic
from evopolicygym.sandbox.agent.program import LAYER, LaunchRequest, Layers
from evopolicygym.sandbox.agent.visible_files import SYSTEM, VisibleFiles, grant_of, visible_files
from evopolicygym.sandbox.package_scan import simulators_in
from evopolicygym.sandbox.runtime import is_within, runtime

FLAGS: Final = ("-I", "-S", "-B")
END_S: Final = 40.0
LISTENERS: Final = 64


def launch(
    argv: Sequence[str],
    sandbox: AgentSandbox,
    level: AgentLevel,
    stdin: int,
    stdout: int,
    stderr: int,
    max_landlock_abi: int | None = None,
) -> SandboxedProcess:
    """Start ``argv`` in ``sandbox``. Raises LayerFailed, or UserError if the program cannot be run there."""
    sandbox.check((runtime().package_root, runtime().site))
    with ExitStack() as stack:
        uid = None if level is AgentLevel.NONE else agent_uid(sandbox.workspace)
        visible = visible_files(sandbox)
        if uid is not None:
            _hand_over(sandbox, uid)
        network = AgentNetwork(sandbox, level)
        stack.callback(network.close)
        grant = grant_of(sandbox, visible, uid is not None, network.reachable) if level is AgentLevel.B else None
        layers = Layers(level, sandbox.network, uid, sandbox.processes, grant, max_landlock_abi)
        supervisor = Supervisor(_launch_request(argv, sandbox, visible, layers, network), (stdin, stdout, stderr))
        stack.callback(supervisor.end)
        network.open(supervisor.listeners)
        return SandboxedProcess(level, supervisor, network, stack.pop_all())


class SandboxedProcess:
    """A program in its sandbox. When it ends, all that it has started ends with it."""

    def __init__(self, level: AgentLevel, supervisor: Supervisor, network: AgentNetwork, cleanup: ExitStack) -> None:
        self.level, self._supervisor, self._network, self._cleanup = level, supervisor, network, cleanup

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the program's exit code (128 + n if signal n ended it), or None if it still runs after ``timeout``."""
        if not self._supervisor.wait(timeout):
            return None
        self._cleanup.close()
        return self._supervisor.exit_code()

    def terminate(self) -> None:
        """Send SIGTERM to the program, and to no other process."""
        self._supervisor.terminate()

    def kill(self) -> None:
        """End the program and all processes of the agent. Raises Fault if some may be left."""
        self._supervisor.end()
        self._cleanup.close()
        self._supervisor.exit_code()

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        """Return what the proxy let through, and what it refused."""
        return self._network.traffic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class LayerFailed(Fault):
    """A layer of the sandbox failed; the program was never started."""


class Supervisor:
    """The process that runs ``supervisor_main``: starts it, sends it the request, receives its reports."""

    def __init__(self, request: LaunchRequest, streams: tuple[int, int, int]) -> None:
        self._control, theirs = socket.socketpair()
        own = runtime()
        with theirs:
            self._process = subprocess.Popen(
                [own.python, *FLAGS, supervisor_main.__file__, own.package_root, str(theirs.fileno())],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._lock, self._received = threading.Lock(), b""
        self._last_report: dict[str, Any] | None = None
        with suppress(ConnectionError):  # then it has sent a report, or is dead
            request.send(self._control)
        report, self.listeners = self._receive()
        if "running" not in report:
            self.end()
            self._control.close()
            reason = report.get("refused", "the supervisor died while starting")
            if report.get("kind", LAYER) == LAYER:
                raise LayerFailed(f"a layer of the agent's sandbox failed: {reason}")
            raise UserError(
                f"{request.argv[0]} cannot be started in the agent's sandbox: {reason}",
                f"It sees the system, its workspace and what it is given; PATH is {request.environment['PATH']}.",
            )

    def wait(self, timeout: float | None) -> bool:
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        with suppress(OSError):  # it has ended already
            self._control.send(supervisor_main.TERMINATE)

    def end(self) -> None:
        """Make the supervisor kill the agent, and wait for it."""
        with suppress(OSError):  # it has ended already
            self._control.shutdown(socket.SHUT_WR)
        if not self.wait(END_S):
            self._process.kill()
            self._process.wait()

    def exit_code(self) -> int:
        """Return the program's exit code from the last report, which is sent when no process of the agent is left."""
        with self._lock:
            if self._last_report is None:
                self._last_report = self._receive()[0]
                self._control.close()
        if not self._last_report.get("all_ended"):
            raise Fault("processes of the agent may be left over: the supervisor did not see their end")
        return int(self._last_report["ended"])

    def _receive(self) -> tuple[dict[str, Any], list[socket.socket]]:
        """Receive one line. What arrives after it is kept for the next call."""
        sockets: list[socket.socket] = []
        while b"\n" not in self._received:
            try:
                part, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, LISTENERS)
            except ConnectionError:
                part, descriptors = b"", []
            sockets += [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not part:
                return {}, sockets
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line), sockets


def _hand_over(sandbox: AgentSandbox, uid: int) -> None:
    hand_over(sandbox.workspace, uid, keep="feedback")
    hand_over(sandbox.home, uid)
    hand_over(sandbox.temporary, uid)


def _passed_folders(sandbox: AgentSandbox, visible: VisibleFiles) -> tuple[str, ...]:
    """Return the folders that the agent's user must pass through; their parents are passed as well. Folders of the
    system that are closed stay closed."""
    shown = (*visible.trees, *visible.shown, *(os.path.realpath(path) for path in sandbox.readable))
    outside_system = (path for path in shown if not is_within(path, SYSTEM))
    paths = (*sandbox.writable, *outside_system, *_python_parts(sandbox))
    return tuple(dict.fromkeys(os.path.join(os.path.dirname(path), "") for path in paths))


def _hidden(visible: VisibleFiles) -> tuple[str, ...]:
    """Return files that the agent must not be able to open: one of this package, and one of each simulator found."""
    simulators = [path for hole in visible.holes for path in simulators_in(hole) if not is_within(path, visible.shown)]
    modules = [path if os.path.isfile(path) else os.path.join(path, "__init__.py") for path in simulators]
    return (os.path.join(runtime().package_root, "evopolicygym", "errors.py"), *modules)


def _python_parts(sandbox: AgentSandbox) -> tuple[str, ...]:
    return (str(sandbox.python.folder), sandbox.python.executable, *sandbox.python.packages)


def _launch_request(
    argv: Sequence[str], sandbox: AgentSandbox, visible: VisibleFiles, layers: Layers, network: AgentNetwork
) -> LaunchRequest:
    return LaunchRequest(
        argv=tuple(argv),
        environment=sandbox.full_environment(network.proxy),
        workspace=str(sandbox.workspace),
        home=str(sandbox.home),
        temporary=str(sandbox.temporary),
        writable=sandbox.writable,
        feedback=os.path.realpath(sandbox.feedback) if sandbox.feedback else None,
        visible=visible,
        ports=network.relayed,
        hidden=_hidden(visible),
        needed=(*sandbox.writable, *_python_parts(sandbox)),
        passed_folders=_passed_folders(sandbox, visible) if layers.grant and layers.uid is not None else (),
        judge=os.getpid(),
        layers=layers,
    )
