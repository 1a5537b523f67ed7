"""The supervisor: a clean process of ours, exec'd with an empty environment, that starts one agent and outlives it.

Started as ``python -I -S -B supervisor_main.py PACKAGE_ROOT CONTROL_FD``; descriptors 0, 1 and 2 are the agent's. It
reads a LaunchRequest from the control socket, builds the sandbox, starts the program, reports that it runs (or why not)
and its exit code once no process of the agent is left. When the control socket closes, or the judge has died, it
kills the whole process tree at once.
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
from evopolicygym.sandbox.agent import namespaces
from evopolicygym.sandbox.agent.agent_user import passage
from evopolicygym.sandbox.agent.program import LAYER, LaunchRequest, become_program, describe, exit_code
from evopolicygym.sandbox.process_tree import adopt_orphans, end_tree

TERMINATE = b"T"


class NotStarted(Exception):
    """The program was not started. ``kind``: LAYER if a layer of the sandbox failed, PROGRAM if it cannot be run."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def main(control: socket.socket) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the judge handles Ctrl-C, and tells us to terminate if need be
    judge = kernel.pidfd_open(os.getppid())
    request = LaunchRequest.read(control)
    try:
        with _passage(request):
            listeners = namespaces.leave_host(request) if request.private else []
            child = _start(request)
            _supervise(control, judge, child, request, listeners)
    except (NotStarted, OSError) as problem:
        _report(control, {"refused": describe(problem), "kind": getattr(problem, "kind", LAYER)})
    os._exit(0)


def _passage(request: LaunchRequest) -> AbstractContextManager[None]:
    """Grant the agent's user passage through closed folders. Done here and not by the judge, which may be killed before
    it has taken the grants back."""
    uid = request.layers.uid
    return nullcontext() if uid is None or not request.passed_folders else passage(request.passed_folders, uid)


def _supervise(
    control: socket.socket, judge: int, child: int, request: LaunchRequest, listeners: list[socket.socket]
) -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    _report(control, {"running": child}, [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()  # the judge holds it now, and no process in the sandbox does
    status = _wait(control, judge, child)
    all_ended = request.private or end_tree(request.layers.uid)
    _report(control, {"ended": status, "all_ended": all_ended})


def _start(request: LaunchRequest) -> int:
    """Fork the child to wait for: the init of the agent's pid namespace, or the program itself."""
    reader, writer = os.pipe()
    if not request.private:
        adopt_orphans()
    child = os.fork()
    if child == 0:
        os.close(reader)
        (namespaces.become_init if request.private else become_program)(request, writer)
    os.close(writer)
    _close_streams()
    with os.fdopen(reader, "rb") as file:  # ends without data once the child has exec'd the program
        failure = file.read().decode(errors="replace")
    if failure:
        os.waitpid(child, 0)
        kind, _, reason = failure.partition(":")
        raise NotStarted(kind, reason.strip())
    return child


def _wait(control: socket.socket, judge: int, child: int) -> int:
    """Wait until the program has ended, or kill it when the judge says so or has died. Returns the exit code."""
    pidfd = kernel.pidfd_open(child)
    poll = select.poll()
    for descriptor in (control.fileno(), judge, pidfd):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if pidfd in ready:
            return _reap(child)
        if judge not in ready and _read_command(control) == TERMINATE:
            os.kill(child, signal.SIGTERM)
        else:
            os.kill(child, signal.SIGKILL)
            return _reap(child)


def _read_command(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except OSError:
        return b""


def _reap(child: int) -> int:
    """Wait for ``child``, and reap adopted orphans that die meanwhile. If ``child`` is an init, the kernel has killed
    its whole namespace by the time this returns."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return exit_code(status)


def _close_streams() -> None:
    """Let readers of the agent's output see its end as soon as the agent closes it."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _report(control: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    with suppress(OSError):  # the judge is gone
        socket.send_fds(control, [json.dumps(message).encode() + b"\n"], descriptors or [])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[2])))
