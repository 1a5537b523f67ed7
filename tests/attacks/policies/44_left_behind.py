"""Leaves a process behind, in a session of its own, that outlives the episode and has nobody's limits."""

import os
import time


def attack() -> bool:
    try:
        if os.fork():
            return True
    except OSError:
        return False
    os.setsid()
    os.closerange(0, 64)
    time.sleep(0.5)
    os._exit(0)
