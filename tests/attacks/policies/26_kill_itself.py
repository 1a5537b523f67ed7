"""Kills itself, to look as if it had been killed for its use of CPU time or memory. At level A it is the first
process of its namespace, and the kernel ignores such a signal from within."""

import os
import signal

EXPECT = ("crash", "held")
CONTROL = "crash"


def attack() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return False
