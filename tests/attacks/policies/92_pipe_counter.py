"""Passes a message to the next episode in the kernel's counter of inode numbers: each new pipe takes one, so the first
episode makes pipes until the low bits say what it wants to say, and the second looks at the number of its own pipe."""

import os

EPISODES = 2
PAGE, MESSAGE, BITS = 1 << 8, 0x2D, 1 << 14  # the message stands above eight bits of noise


def number() -> int:
    reader, writer = os.pipe()
    found = os.fstat(reader).st_ino
    os.close(reader)
    os.close(writer)
    return found % BITS


def attack() -> bool:
    try:
        if number() // PAGE == MESSAGE:
            return True
        while number() // PAGE != MESSAGE:
            pass
    except OSError:
        pass
    return False
