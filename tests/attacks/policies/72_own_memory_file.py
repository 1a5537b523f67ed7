"""Writes to its own memory through /proc, where no page is read-only."""

import ctypes

CONSTANT = b"this page could be code"


def attack() -> bool:
    address = id(CONSTANT) + type(CONSTANT).__basicsize__ - 1
    try:
        with open("/proc/self/mem", "r+b", 0) as memory:
            memory.seek(address)
            memory.write(b"that")
    except OSError:
        return False
    return ctypes.string_at(address, 4) == b"that"
