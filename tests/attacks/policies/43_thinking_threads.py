"""Thinks in threads while the simulator computes, when no answer is due and no clock seems to run."""

import threading
import time

WHEN = "every act"
EXPECT = "timeout"
CONTROL = "same"


def think() -> None:
    while True:
        pass


def attack() -> bool:
    if threading.active_count() < 3:
        threading.Thread(target=think, daemon=True).start()
    time.sleep(0.5)
    return False
