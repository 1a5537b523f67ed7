"""Connects to a server on the same machine: the judge's own door listens on loopback."""

import socket

from kit import FACTS


def attack() -> bool:
    try:
        socket.create_connection(("127.0.0.1", FACTS["tcp"]), timeout=0.2).close()
    except OSError:
        return False
    return True
