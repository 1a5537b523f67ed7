"""Closes every descriptor, the channel among them, and stays."""

import os

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.closerange(0, 4096)
    return False
