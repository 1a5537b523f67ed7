"""Thinks in a thread while it seems to sleep: the time of all threads counts."""

import threading
import time

EXPECT = "timeout"
CONTROL = "same"


def think() -> None:
    while True:
        pass


def attack() -> bool:
    threading.Thread(target=think, daemon=True).start()
    while True:
        time.sleep(0.01)
