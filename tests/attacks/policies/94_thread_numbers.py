"""Passes a message to the next episode in the counter of process numbers: the first episode starts threads until the low
bits of their numbers say what it wants to say, the second looks at its own number."""

import os
import threading

EPISODES = 2
STEP, MESSAGE, BITS = 1 << 6, 0x5, 1 << 10


def number() -> int:
    found = []
    thread = threading.Thread(target=lambda: found.append(threading.get_native_id()))
    thread.start()
    thread.join()
    return found[0] % BITS


def attack() -> bool:
    if os.getpid() % BITS // STEP == MESSAGE:
        return True
    for _ in range(2 * BITS):
        if number() // STEP == MESSAGE:
            break
    return False
