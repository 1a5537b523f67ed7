"""Answers with an empty frame, which reads like the end of the connection."""

from kit import CHANNEL, libc

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    libc.send(CHANNEL, b"", 0, 0)
    return False
