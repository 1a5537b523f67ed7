"""Answers with three bytes."""

import os

from kit import ANSWERS

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os.write(ANSWERS, b"\3\0\0")
    return False
