"""The warden: a clean process of ours, exec'd with an empty environment, that keeps one agent.

Started as ``python -I -S -B warden.py HARNESS CONTROL_FD``; descriptors 0, 1 and 2 are the agent's. It is told the cell
on the control socket, builds it, starts the program, says so (or why not), and answers with how it ended once nobody of
it is left. When the socket closes, or the judge is gone, it ends the tree at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NoReturn

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.agent import namespaces, tree
from evopolicygym.sandbox.agent.agent_user import passage
from evopolicygym.sandbox.agent.orders import LaunchRequest
from evopolicygym.sandbox.agent.program import LAYER, become_program, exit_code, in_words

TERMINATE = b"T"


class NotStarted(Exception):
    """``kind``: a layer did not take, or the program cannot be run."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def main(control: socket.socket) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is the judge's to hear, and its to pass on
    judge = kernel.pidfd_open(os.getppid())
    orders = LaunchRequest.read(control)
    try:
        with _passage(orders):
            listeners = namespaces.leave_host(orders) if orders.private else []
            child = _start(orders)
            _keep(control, judge, child, orders, listeners)
    except (NotStarted, OSError) as problem:
        _say(control, {"refused": in_words(problem), "kind": getattr(problem, "kind", LAYER)})
    os._exit(0)


def _passage(orders: LaunchRequest) -> AbstractContextManager[None]:
    """Here and not with the judge, who may be killed before he has closed the doors again."""
    uid = orders.layers.uid
    return nullcontext() if uid is None or not orders.reached else passage(orders.reached, uid)


def _keep(
    control: socket.socket, judge: int, child: int, orders: LaunchRequest, listeners: list[socket.socket]
) -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    _say(control, {"running": child}, [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()  # the judge's now: nobody in the cell holds it
    status = _watch(control, judge, child)
    alone = orders.private or tree.end_tree(orders.layers.uid)
    _say(control, {"ended": status, "alone": alone})


def _start(orders: LaunchRequest) -> int:
    """The child to wait for: the init of the agent's pid namespace, or the program itself."""
    reader, writer = os.pipe()
    if not orders.private:
        tree.adopt_orphans()
    child = os.fork()
    if child == 0:
        os.close(reader)
        (namespaces.become_init if orders.private else become_program)(orders, writer)
    os.close(writer)
    _forget_streams()
    with os.fdopen(reader, "rb") as file:  # closes when the program has replaced us
        told = file.read().decode(errors="replace")
    if told:
        os.waitpid(child, 0)
        kind, _, reason = told.partition(":")
        raise NotStarted(kind, reason.strip())
    return child


def _watch(control: socket.socket, judge: int, child: int) -> int:
    """Until the program has ended, or must."""
    pidfd = kernel.pidfd_open(child)
    poll = select.poll()
    for descriptor in (control.fileno(), judge, pidfd):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if pidfd in ready:
            return _bury(child)
        if judge not in ready and _order(control) == TERMINATE:
            os.kill(child, signal.SIGTERM)
        else:
            os.kill(child, signal.SIGKILL)
            return _bury(child)


def _order(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except OSError:
        return b""


def _bury(child: int) -> int:
    """When it is an init, the kernel has by then ended its whole namespace. Orphans that die meanwhile are ours."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return exit_code(status)


def _forget_streams() -> None:
    """Whoever reads the agent's output must see its end when the agent closes it."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _say(control: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    with suppress(OSError):  # nobody listens any more
        socket.send_fds(control, [json.dumps(message).encode() + b"\n"], descriptors or [])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[2])))
