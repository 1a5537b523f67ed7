"""The zygote forker: a clean process that forks zygotes, split off from the process that then becomes a judge's worker.

Worker and policies descend from one process, which was exec'd with an empty environment and forked before it received
anything. So they have their interpreter and numpy at the same addresses, and what one of them leaves in the core's
caches and branch predictors serves the other, fifty thousand times a second. The worker's half belongs to the judge
from then on; this half stays clean, and so does everything it forks.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
from typing import Final, NoReturn

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.policy import zygote

CONTROL_FD: Final = 3
DEBUG_VARIABLE: Final = "EVOPOLICYGYM_DEBUG"


def split() -> socket.socket:
    """Fork. Returns only in the half that may learn secrets, with its connection to the other."""
    for module in zygote.NUMPY:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _keep_only(theirs.detach())
        _serve(socket.socket(fileno=CONTROL_FD))
    theirs.close()
    return ours


def _keep_only(control: int) -> None:
    """Give up everything of the judge: its descriptors and its working directory."""
    os.dup2(control, CONTROL_FD)
    os.closerange(CONTROL_FD + 1, 1 << 16)
    os.chdir("/")
    if DEBUG_VARIABLE not in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _serve(control: socket.socket) -> NoReturn:
    """For each descriptor received, fork a zygote that listens to it, and answer with its pidfd."""
    kernel.die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not request:
            os._exit(0)
        _reap_children()
        child = os.fork()
        if child == 0:
            control.close()
            zygote.main(socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])
        pidfd = kernel.pidfd_open(child)
        socket.send_fds(control, [request], [pidfd])
        os.close(pidfd)


def _reap_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
