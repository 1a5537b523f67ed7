"""Leaves at once with the code of success: an end without an answer is not a result."""

import os

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    os._exit(0)
