"""Reads from address zero."""

import ctypes

EXPECT = "crash"
CONTROL = "same"


def attack() -> bool:
    return bool(ctypes.string_at(0))
