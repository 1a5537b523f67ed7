"""Tries to send ten megabytes in one frame, to make the judge take the memory for it."""

import os

from kit import CHANNEL, any_works

CONTROL = "same"


def attack() -> bool:
    return any_works(lambda: os.write(CHANNEL, b"\1" * (10 << 20)))
