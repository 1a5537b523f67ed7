"""The launch request that the judge sends the supervisor, and how a process becomes the agent's program: it applies
every layer, tests the layers from inside, and execs the program."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn, Self

from evopolicygym.sandbox import kernel, landlock, seccomp
from evopolicygym.sandbox.agent import syscall_filter
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.visible_files import VisibleFiles
from evopolicygym.sandbox.landlock import FileGrant
from evopolicygym.sandbox.privileges import count_tasks, switch_user

LAYER: Final = "layer"
PROGRAM: Final = "program"
DISCARD: Final = 9  # a port with no listener, which is never granted


@dataclass(frozen=True)
class Layers:
    """The layers that the agent's process applies to itself just before it becomes the program (``apply_layers``).

    ``uid``: a user of its own, when the judge is root. ``grant``: the rules for Landlock, at level B."""

    level: AgentLevel
    network: NetworkAccess
    uid: int | None
    processes: int
    grant: FileGrant | None
    max_landlock_abi: int | None


@dataclass(frozen=True)
class LaunchRequest:
    """Description of the whole sandbox and of the program to start, sent as one line of JSON.

    ``writable``, ``temporary``, ``feedback`` and ``visible`` make up the private root; the supervisor listens on
    ``ports`` in the agent's network namespace; ``passed_folders`` are folders that the agent's user must be able to
    pass through. ``hidden`` and ``judge`` must be out of reach and ``needed`` within reach, which is tried before the
    program starts."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    workspace: str
    home: str
    temporary: str
    writable: tuple[str, ...]
    feedback: str | None
    visible: VisibleFiles
    ports: tuple[int, ...]
    hidden: tuple[str, ...]
    needed: tuple[str, ...]
    passed_folders: tuple[str, ...]
    judge: int
    layers: Layers

    @property
    def private(self) -> bool:
        """Whether the agent has namespaces and a private root."""
        return self.layers.level is AgentLevel.A

    @property
    def own_network(self) -> bool:
        return self.private and self.layers.network is not NetworkAccess.OPEN

    def send(self, control: socket.socket) -> None:
        control.sendall(json.dumps(asdict(self)).encode() + b"\n")

    @classmethod
    def read(cls, control: socket.socket) -> Self:
        """Read one line. Peeks first: bytes after it must stay in the socket, and reading single bytes is slow."""
        data = b""
        while not data.endswith(b"\n"):
            ahead = control.recv(1 << 16, socket.MSG_PEEK)
            if not ahead:
                raise EOFError("the judge is gone")
            end = ahead.find(b"\n") + 1
            data += control.recv(end or len(ahead))
        return cls._from_json(json.loads(data))

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        layers = fields["layers"]
        grant = layers["grant"]
        layers |= {
            "level": AgentLevel(layers["level"]),
            "network": NetworkAccess(layers["network"]),
            "grant": FileGrant(**_tuples(grant)) if grant else None,
        }
        visible = VisibleFiles(**_tuples(fields["visible"]))
        return cls(**_tuples(fields | {"layers": Layers(**layers), "visible": visible}))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def become_program(request: LaunchRequest, report: int) -> NoReturn:
    """Confine this process and exec the program. A failure is written to the pipe ``report``, which the program does
    not inherit."""
    kind = LAYER
    try:
        os.setsid()
        os.closerange(3, report)
        os.closerange(report + 1, 1 << 20)
        os.umask(0o022)
        apply_layers(request.layers)
        kernel.die_with_parent(signal.SIGKILL)
        os.chdir(request.workspace)
        if request.layers.level is not AgentLevel.NONE:
            self_test(request)
        kind = PROGRAM
        os.execvpe(request.argv[0], request.argv, request.environment)
    except BaseException as error:
        os.write(report, f"{kind}: {describe(error)}".encode())
    os._exit(127)


def apply_layers(layers: Layers) -> None:
    """Apply every layer to this process, in order. Raises if one fails; then the program must not be started."""
    _reset_signals()
    _limit(resource.RLIMIT_CORE, 0)
    kernel.prefer_for_oom_kill()
    if layers.level is AgentLevel.NONE:
        return
    _limit(resource.RLIMIT_NPROC, layers.processes + _counted_tasks(layers))
    kernel.empty_bounding_set()
    if layers.uid is not None:
        switch_user(layers.uid)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    abi = _apply_landlock(layers)
    private = layers.level is AgentLevel.A
    only_tcp = not private and layers.network is not NetworkAccess.OPEN
    seccomp.apply(syscall_filter.build(syscall_filter.Rules(private, only_tcp, abi)))


def _counted_tasks(layers: Layers) -> int:
    """Return how many tasks of the judge's user the kernel counts against the agent: it counts by user and by user
    namespace, so none where the agent has either of its own."""
    return count_tasks(os.getuid()) if layers.level is AgentLevel.B and layers.uid is None else 0


def _apply_landlock(layers: Layers) -> int | None:
    if layers.grant is not None:
        return landlock.confine(layers.grant, layers.max_landlock_abi)
    if layers.network is NetworkAccess.OPEN:  # then the abstract sockets of the host are in the same network namespace
        landlock.scope()
    return None


def _reset_signals() -> None:
    """Restore the default handlers: Python ignores some signals, and exec keeps ignored signals ignored."""
    for number in signal.valid_signals():
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def self_test(request: LaunchRequest) -> None:
    """Try what the layers must refuse. Raises OSError naming the layer that failed."""
    for path in request.hidden:
        _must_fail(f"{path} can be read", lambda path=path: os.close(os.open(path, os.O_RDONLY)))  # type: ignore[misc]
    _must_fail("/etc can be written to", lambda: os.close(os.open("/etc/evopolicygym", os.O_WRONLY | os.O_CREAT)))
    if request.private:
        if os.getppid() != 1:
            raise OSError("the pid namespace has no effect")
    elif request.layers.uid is not None or landlock.usable_abi(request.layers.max_landlock_abi) >= 6:
        _must_fail("the judge can be signalled", lambda: os.kill(request.judge, 0))
    if request.layers.network is not NetworkAccess.OPEN:
        _test_network(request)
    for path in request.needed:
        if not os.access(path, os.R_OK):
            raise OSError(f"an agent cannot read {path} (uid {os.geteuid()}): chmod -R o+rX it")


def _test_network(request: LaunchRequest) -> None:
    if not request.private and landlock.usable_abi(request.layers.max_landlock_abi) < 4:
        return
    with socket.socket() as attempt:
        attempt.setblocking(False)
        result = attempt.connect_ex(("127.0.0.1" if not request.private else "192.0.2.1", DISCARD))
    if result not in (errno.EACCES, errno.ENETUNREACH):
        raise OSError(f"the network layer has no effect: a connection was attempted ({os.strerror(result)})")


def _must_fail(failure: str, attempt: Callable[[], object]) -> None:
    with suppress(OSError):
        attempt()
        raise RuntimeError(f"{failure}: a layer has no effect")


def describe(error: BaseException) -> str:
    """Return the error's text without its number."""
    return re.sub(r"^\[Errno \d+\] ", "", str(error)) or type(error).__name__


def exit_code(status: int) -> int:
    """Return the exit code as a shell reports it: 128 + n for signal n."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
