"""Connects to a UNIX socket by its path. Landlock has no right for it before ABI 9."""

import socket

from kit import FACTS, any_works


def attack() -> bool:
    return any_works(lambda: socket.socket(socket.AF_UNIX).connect(FACTS["unix"]))
