"""From a process of ours to the agent's program: every layer first, a last look around, and only then the program."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from evopolicygym.sandbox import kernel, landlock
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.orders import LaunchRequest

LAYER: Final = "layer"
PROGRAM: Final = "program"
DISCARD: Final = 9  # a port at which nobody listens, and which is never granted


def become_program(orders: LaunchRequest, report: int) -> NoReturn:
    """A failure is told by the pipe, which the program does not inherit."""
    kind = LAYER
    try:
        os.setsid()
        os.closerange(3, report)
        os.closerange(report + 1, 1 << 20)
        os.umask(0o022)
        orders.layers.lay()
        kernel.die_with_parent(signal.SIGKILL)
        os.chdir(orders.workspace)
        if orders.layers.level is not AgentLevel.NONE:
            look_around(orders)
        kind = PROGRAM
        os.execvpe(orders.argv[0], orders.argv, orders.environment)
    except BaseException as error:
        os.write(report, f"{kind}: {in_words(error)}".encode())
    os._exit(127)


def look_around(orders: LaunchRequest) -> None:
    """Try what the layers must refuse. Raises OSError naming what did not take."""
    for path in orders.hidden:
        _must_fail(f"{path} can be read", lambda path=path: os.close(os.open(path, os.O_RDONLY)))  # type: ignore[misc]
    _must_fail("/etc can be written to", lambda: os.close(os.open("/etc/evopolicygym", os.O_WRONLY | os.O_CREAT)))
    if orders.private:
        if os.getppid() != 1:
            raise OSError("the pid namespace did not take")
    elif orders.layers.uid is not None or landlock.usable_abi(orders.layers.max_landlock_abi) >= 6:
        _must_fail("the judge can be signalled", lambda: os.kill(orders.judge, 0))
    if orders.layers.network is not NetworkAccess.OPEN:
        _only_granted_ports(orders)
    for path in orders.needed:
        if not os.access(path, os.R_OK):
            raise OSError(f"an agent cannot read {path} (uid {os.geteuid()}): chmod -R o+rX it")


def _only_granted_ports(orders: LaunchRequest) -> None:
    if not orders.private and landlock.usable_abi(orders.layers.max_landlock_abi) < 4:
        return
    with socket.socket() as attempt:
        attempt.setblocking(False)
        reached = attempt.connect_ex(("127.0.0.1" if not orders.private else "192.0.2.1", DISCARD))
    if reached not in (errno.EACCES, errno.ENETUNREACH):
        raise OSError(f"the network layer did not take: a connection was tried ({os.strerror(reached)})")


def _must_fail(what: str, attempt: Callable[[], object]) -> None:
    with suppress(OSError):
        attempt()
        raise RuntimeError(f"{what}: a layer did not take")


def in_words(error: BaseException) -> str:
    return re.sub(r"^\[Errno \d+\] ", "", str(error)) or type(error).__name__


def exit_code(status: int) -> int:
    """As a shell would say it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
