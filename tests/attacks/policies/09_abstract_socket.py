"""Connects to a UNIX socket in the abstract namespace, which has no path that a file rule could refuse."""

import socket

from kit import FACTS, any_works


def attack() -> bool:
    return any_works(lambda: socket.socket(socket.AF_UNIX).connect(FACTS["abstract"]))
