"""Sends descriptors to the judge until it has no room for more of its own. Without the jail they arrive, and the judge,
which asks for none, does not get them; the frame they came in is none that was due."""

import socket
import sys

from kit import any_works

CONTROL = "crash"


def attack() -> bool:
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    channel = frame.f_locals["channel"]
    return any_works(*[lambda: socket.send_fds(channel, [b"take these"], [0] * 200) for _ in range(5)]) and False
