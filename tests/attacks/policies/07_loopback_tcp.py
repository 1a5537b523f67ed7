"""Connects to a server on the same machine: the API of the judge listens on loopback."""

import socket

from kit import FACTS, any_works


def attack() -> bool:
    return any_works(lambda: socket.socket().connect(("127.0.0.1", FACTS["tcp"])))
