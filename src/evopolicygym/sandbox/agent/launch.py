"""The judge's side: start a program in a cell, wait for it, and end it so that nobody of it is left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from evopolicygym.sandbox.agent import supervisor_main
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox
from evopolicygym.sandbox.agent.agent_user import agent_uid, hand_over
from evopolicygym.sandbox.agent.gateway import ProxyTraffic
from evopolicygym.sandbox.agent.grants import grant_of
from evopolicygym.sandbox.agent.keeper import Supervisor
from evopolicygym.sandbox.agent.layers import Layers
from evopolicygym.sandbox.agent.orders import LaunchRequest
from evopolicygym.sandbox.agent.reach import AgentNetwork
from evopolicygym.sandbox.agent.view import SYSTEM, VisibleFiles, view_of
from evopolicygym.sandbox.packages import simulators_in
from evopolicygym.sandbox.runtime import is_within, runtime


def launch(
    argv: Sequence[str],
    cell: AgentSandbox,
    level: AgentLevel,
    stdin: int,
    stdout: int,
    stderr: int,
    max_landlock_abi: int | None = None,
) -> SandboxedProcess:
    """Start ``argv`` in ``cell``. Raises LayerFailed, or UserError if the program cannot be run there."""
    cell.check((runtime().harness, runtime().site))
    with ExitStack() as stack:
        uid = None if level is AgentLevel.NONE else agent_uid(cell.workspace)
        view = view_of(cell)
        if uid is not None:
            _hand_over(cell, uid)
        network = AgentNetwork(cell, level)
        stack.callback(network.close)
        grant = grant_of(cell, view, uid is not None, network.reachable) if level is AgentLevel.B else None
        layers = Layers(level, cell.network, uid, cell.processes, grant, max_landlock_abi)
        process = Supervisor(_orders(argv, cell, view, layers, network), (stdin, stdout, stderr))
        stack.callback(process.end)
        network.open(process.listeners)
        return SandboxedProcess(level, process, network, stack.pop_all())


class SandboxedProcess:
    """A program in its cell. When it ends, all that it has started ends with it."""

    def __init__(self, level: AgentLevel, process: Supervisor, network: AgentNetwork, cleanup: ExitStack) -> None:
        self.level, self._process, self._network, self._cleanup = level, process, network, cleanup

    def wait(self, timeout: float | None = None) -> int | None:
        """The program's exit code (128 + n if signal n ended it), or None if it still runs after ``timeout``."""
        if not self._process.wait(timeout):
            return None
        self._cleanup.close()
        return self._process.exit_code()

    def terminate(self) -> None:
        """Ask the program, and nobody else, to end: SIGTERM."""
        self._process.tell(supervisor_main.TERMINATE)

    def kill(self) -> None:
        """Afterwards no process of the agent exists. Raises Fault if that could not be made sure of."""
        self._process.end()
        self._cleanup.close()
        self._process.exit_code()

    def traffic(self) -> tuple[ProxyTraffic, ...]:
        """What the proxy let through, and what it refused."""
        return self._network.traffic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _hand_over(cell: AgentSandbox, uid: int) -> None:
    hand_over(cell.workspace, uid, keep="feedback")
    hand_over(cell.home, uid)
    hand_over(cell.temporary, uid)


def _ways(cell: AgentSandbox, view: VisibleFiles) -> tuple[str, ...]:
    """One path for each folder that must be passed: its own parents say the rest. What the system closes stays so."""
    shown = (*view.trees, *view.shown, *(os.path.realpath(path) for path in cell.readable))
    own = (path for path in shown if not is_within(path, SYSTEM))
    paths = (*cell.writable, *own, *_python_parts(cell))
    return tuple(dict.fromkeys(os.path.join(os.path.dirname(path), "") for path in paths))


def _hidden(view: VisibleFiles) -> tuple[str, ...]:
    """Files that the agent must not be able to open: of this package, and of simulators that were found."""
    found = [path for hole in view.holes for path in simulators_in(hole) if not is_within(path, view.shown)]
    modules = [path if os.path.isfile(path) else os.path.join(path, "__init__.py") for path in found]
    return (os.path.join(runtime().harness, "evopolicygym", "errors.py"), *modules)


def _python_parts(cell: AgentSandbox) -> tuple[str, ...]:
    return (str(cell.python.folder), cell.python.executable, *cell.python.packages)


def _orders(
    argv: Sequence[str], cell: AgentSandbox, view: VisibleFiles, layers: Layers, network: AgentNetwork
) -> LaunchRequest:
    return LaunchRequest(
        argv=tuple(argv),
        environment=cell.full_environment(network.proxy),
        workspace=str(cell.workspace),
        home=str(cell.home),
        temporary=str(cell.temporary),
        writable=cell.writable,
        feedback=os.path.realpath(cell.feedback) if cell.feedback else None,
        view=view,
        ports=network.relayed,
        hidden=_hidden(view),
        needed=(*cell.writable, *_python_parts(cell)),
        reached=_ways(cell, view) if layers.grant and layers.uid is not None else (),
        judge=os.getpid(),
        layers=layers,
    )
