"""Arranges to compute after its last answer: at exit, in threads that nobody waits for, in handlers of every signal."""

import atexit
import signal
import threading

CONTROL = "same"


def for_ever(*_: object) -> None:
    while True:
        pass


def attack() -> bool:
    atexit.register(for_ever)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXCPU):
        signal.signal(number, for_ever)
    timer = threading.Timer(0.2, for_ever)
    timer.start()
    return False
