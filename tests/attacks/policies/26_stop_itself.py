"""Stops itself, and waits to be continued by nobody. At level A the kernel ignores the signal, as for
26_kill_itself."""

import os
import signal

EXPECT = ("timeout", "held")
CONTROL = "timeout"


def attack() -> bool:
    os.kill(os.getpid(), signal.SIGSTOP)
    return False
