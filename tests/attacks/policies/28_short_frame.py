"""Answers with three bytes."""

import os

from kit import CHANNEL

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(CHANNEL, b"\3\0\0")
    return False
