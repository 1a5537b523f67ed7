"""Level A, from the inside: namespaces, listeners in the own network, the private root, an init that minds it."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.agent.layers import die_first
from evopolicygym.sandbox.agent.orders import LaunchRequest
from evopolicygym.sandbox.agent.program import LAYER, become_program, exit_code, in_words
from evopolicygym.sandbox.agent.root import PrivateRoot, identity_files
from evopolicygym.sandbox.agent.view import RESOLVER
from evopolicygym.sandbox.namespaces import unshare_as_user
from evopolicygym.sandbox.privileges import become_nobody

SET_INTERFACE_FLAGS: Final = 0x8914
INTERFACE_UP: Final = 0x1
BACKLOG: Final = 128


def leave_host(orders: LaunchRequest) -> list[socket.socket]:
    """Own namespaces; the pid namespace is for what is forked next. Returns listeners that live in the own network."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    flags |= kernel.CLONE_NEWCGROUP | (kernel.CLONE_NEWNET if orders.own_network else 0)
    if os.geteuid() == 0:
        kernel.unshare(flags)
    else:
        unshare_as_user(flags)
    kernel.sethostname(b"agent")
    if not orders.own_network:
        return []
    _raise_loopback()
    return [_listen(port) for port in orders.ports]


def become_init(orders: LaunchRequest, report: int) -> NoReturn:
    """The first process of the namespace: builds the root, starts the program, buries the dead, and goes with it."""
    kernel.die_with_parent(signal.SIGKILL)
    try:
        die_first()
        _build_root(orders)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # before there is anybody to look into us
    except BaseException as error:
        os.write(report, f"{LAYER}: {in_words(error)}".encode())
        os._exit(127)
    program = os.fork()
    if program == 0:
        become_program(orders, report)
    os.close(report)
    _mind(program, orders.layers.uid)


def _mind(program: int, uid: int | None) -> NoReturn:
    """Of the signals that its children send, the kernel lets an init see only those that it handles. The warden's word
    to end is passed on; all others change nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _passing_on(program))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.closerange(3, 1 << 20)
    if uid is not None:
        become_nobody(uid)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.die_with_parent(signal.SIGKILL)  # again: a new user forgets it
    while True:
        pid, status = os.wait()
        if pid == program:
            os._exit(exit_code(status))


def _passing_on(program: int) -> Callable[[int, object], None]:
    def pass_on(number: int, _: object) -> None:
        with suppress(OSError):
            os.kill(program, number)

    return pass_on


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14s", b"lo", INTERFACE_UP, b"")
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, request)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def _build_root(orders: LaunchRequest) -> None:
    root = PrivateRoot()
    root.devices()
    root.processes()
    root.bind(orders.temporary, "/tmp", writable=True)  # first: other folders may lie beneath /tmp
    _show_system(root, orders)
    os.mkdir(root.path("/var"))
    root.link("/var/tmp", "/tmp")
    for folder in sorted(orders.writable):
        root.bind(folder, folder, writable=True)
    if orders.feedback:
        root.bind(orders.feedback, f"{orders.workspace}/feedback")
    root.enter()


def _show_system(root: PrivateRoot, orders: LaunchRequest) -> None:
    view, outside = orders.view, orders.layers.network.value == "open"
    for path, target in view.links:
        root.link(path, target)
    for path in (*view.trees, *view.etc, *(RESOLVER if outside else ())):
        root.bind(os.path.realpath(path), path)
    for hole in view.holes:
        root.hide(hole)
    for path in view.shown:
        root.bind(path, path)
    for hole in view.holes:
        root.seal(hole)
    uid, gid = orders.layers.uid or os.getuid(), orders.layers.uid or os.getgid()
    for path, text in identity_files(uid, gid, orders.home, outside).items():
        root.write(path, text)
