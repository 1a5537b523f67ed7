"""Sends datagrams, as a DNS tunnel would: no connection is needed, and Landlock knows nothing of them."""

import socket

from kit import FACTS, any_works


def attack() -> bool:
    return any_works(
        lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", FACTS["udp"])),
        lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"out", ("::ffff:127.0.0.1", FACTS["udp"])),
    )
