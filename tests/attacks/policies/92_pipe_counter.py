"""Passes a message to the next episode in the kernel's counter of inode numbers: each new pipe takes one, so the
first episode makes pipes until the low bits say what it wants to say, and the second looks at the number of its own
pipe."""

import os

from kit import FACTS

WHEN = "init"
EPISODES = 2
PAGE, BITS = 1 << 8, 1 << 12  # the message stands above eight bits of noise
MESSAGE = int(FACTS["canary_sha256"], 16) % (BITS // PAGE)


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
